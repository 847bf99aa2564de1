"""Store credit for the run's customer."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from gateways.protocols import CreditRequest, Systems, SystemUnavailable
from schemas.base import Model
from schemas.calls import Binding
from schemas.codes import Code
from schemas.decisions import Claim
from schemas.effects import Attempt, Effect, Inspection
from schemas.money import Currency, Minor, Money
from schemas.replies import Explanation
from tools.protocol import Refusal, WriteArguments, WriteTool

SMALLEST_CREDIT, LARGEST_CREDIT = 100, 25_000

CreditReason = Literal["late_delivery", "service_failure", "goodwill", "price_difference"]


class IssueAccountCreditArguments(WriteArguments):
    amount_cents: Annotated[int, Field(ge=SMALLEST_CREDIT, le=LARGEST_CREDIT, description="Minor units: 500 is 5.00")]
    currency: Annotated[Literal["USD", "CAD", "EUR", "GBP"], Field(description="The account's, as lookup_account says")]
    reason_code: Annotated[CreditReason, Field(description="Why the customer gets credit")]
    note: Annotated[
        Annotated[str, StringConstraints(max_length=280)] | None,
        Field(description="What an approver should know. Shown as your words, never used to decide"),
    ] = None


class AccountFacts(Model):
    """`facts.account`. `credit_cents` is what the account holds before this."""

    customer_id: str
    tier: str
    currency: Currency
    credit_cents: Minor
    fraud_flag: bool


class CreditFacts(Model):
    account: AccountFacts
    facts_at: datetime


class IssueAccountCreditResult(Model):
    """`balance_cents` is what the account held right after it."""

    credit_id: str
    amount_cents: Minor
    currency: Currency
    balance_cents: Minor | None = None


class CreditTarget(Model):
    """`Effect.target` of a credit."""

    customer_id: str
    amount_cents: Minor
    currency: Currency
    reason_code: str


class IssueAccountCredit(WriteTool[IssueAccountCreditArguments, CreditFacts, IssueAccountCreditResult]):
    name = "issue_account_credit"
    arguments_model = IssueAccountCreditArguments
    facts_model = CreditFacts
    result_model = IssueAccountCreditResult
    untrusted_arguments = ("note",)
    amendable = ("amount_cents", "reason_code")

    async def read_facts(
        self, arguments: IssueAccountCreditArguments, binding: Binding, systems: Systems
    ) -> CreditFacts | Refusal:
        account = await systems.orders.account(binding.customer_id)
        if account is None:
            raise SystemUnavailable("orders", "customer_missing")
        known = {name: getattr(account, name) for name in AccountFacts.model_fields}
        return CreditFacts(account=AccountFacts(**known), facts_at=datetime.now(UTC))

    def check(self, arguments: IssueAccountCreditArguments, facts: CreditFacts) -> Refusal | None:
        kept_in = facts.account.currency
        if arguments.currency == kept_in:
            return None
        explanation = Explanation(
            values={"problem": f"currency must be {kept_in}, which the account is kept in"},
            allowed={"currency": kept_in},
            invalid_fields=("currency",),
        )
        return Refusal(code=Code.INVALID_INPUT, explanation=explanation)

    def claim(self, arguments: IssueAccountCreditArguments, facts: CreditFacts) -> Claim | None:
        """Nothing outside is used up by credit: how much there may be of it is for the policy's limits to say. So each
        call takes from something of its own, which has just what it takes."""
        return Claim(
            resource=f"credit:{arguments.idempotency_key}",
            amount=arguments.amount_cents,
            available=arguments.amount_cents,
            currency=facts.account.currency,
        )

    def exceeded(self, arguments: IssueAccountCreditArguments, facts: CreditFacts, available: int) -> Explanation:
        raise LookupError("a credit takes only what its own resource has")

    def matters(self, facts: CreditFacts) -> dict[str, JsonValue]:
        return {
            "customer_id": facts.account.customer_id,
            "currency": facts.account.currency,
            "fraud_flag": facts.account.fraud_flag,
        }

    def target(self, arguments: IssueAccountCreditArguments, facts: CreditFacts) -> dict[str, JsonValue]:
        return CreditTarget(
            customer_id=facts.account.customer_id,
            amount_cents=arguments.amount_cents,
            currency=facts.account.currency,
            reason_code=arguments.reason_code,
        ).model_dump()

    def title(self, arguments: IssueAccountCreditArguments, facts: CreditFacts) -> str:
        amount = Money(amount=arguments.amount_cents, currency=facts.account.currency)
        return f"Give {amount} of store credit to customer {facts.account.customer_id}"

    async def execute(self, effect: Effect, systems: Systems) -> Attempt:
        return await systems.orders.credit(_request(effect))

    async def inspect(self, effect: Effect, systems: Systems) -> Inspection:
        return await systems.orders.find_credit(_request(effect))

    def presumed(self, effect: Effect, remote_id: str) -> dict[str, JsonValue]:
        target = CreditTarget.model_validate(effect.target)
        return IssueAccountCreditResult(
            credit_id=remote_id, amount_cents=target.amount_cents, currency=target.currency
        ).model_dump(exclude_none=True)

    def done(self, arguments: IssueAccountCreditArguments, result: dict[str, JsonValue]) -> str:
        return f"gave {Money(amount=arguments.amount_cents, currency=arguments.currency)} of store credit"


def _request(effect: Effect) -> CreditRequest:
    target = CreditTarget.model_validate(effect.target)
    return CreditRequest(
        customer_id=target.customer_id,
        amount=target.amount_cents,
        currency=target.currency,
        reason=target.reason_code,
        operation_id=effect.operation_id,
        idempotency_key=effect.gateway_key,
    )


TOOL = IssueAccountCredit()
