"""A refund that is only written down, in the store; submitting it is another tool's."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from gateways.protocols import DraftRequest, Systems
from schemas.base import Model
from schemas.calls import Binding
from schemas.codes import Code
from schemas.decisions import Claim
from schemas.effects import Attempt, Effect, Inspection
from schemas.money import Currency, Minor, Money
from schemas.replies import Explanation
from tools.facts import CustomerFacts, OrderFacts, OrderId, PaymentId, customer_facts, order_facts, own_order
from tools.protocol import Refusal, WriteArguments, WriteTool
from tools.refunds import SMALLEST_REFUND, ReasonCode, currency_mismatch

LARGEST_DRAFT = 200_000


class DraftRefundRequestArguments(WriteArguments):
    order_id: OrderId
    amount_cents: Annotated[int, Field(ge=SMALLEST_REFUND, le=LARGEST_DRAFT, description="Minor units: 4999 is 49.99")]
    currency: Annotated[Literal["USD", "CAD", "EUR", "GBP"], Field(description="The currency the order was paid in")]
    reason_code: Annotated[ReasonCode, Field(description="Why the customer should get money back")]
    payment_id: Annotated[
        PaymentId | None, Field(description="Only for an order paid with several payments: the one to refund")
    ] = None


class DraftRefundFacts(Model):
    """`paid_cents` is what the shop recorded as paid; what is left of it is found out when the draft is submitted."""

    order: OrderFacts
    customer: CustomerFacts
    paid_cents: Minor
    facts_at: datetime


class DraftRefundRequestResult(Model):
    draft_id: str
    order_id: str
    amount_cents: Minor
    currency: Currency


class DraftTarget(Model):
    """`Effect.target` of a draft."""

    order_id: str
    payment_id: str | None = None
    amount_cents: Minor
    currency: Currency
    reason_code: str


class DraftRefundRequest(WriteTool[DraftRefundRequestArguments, DraftRefundFacts, DraftRefundRequestResult]):
    name = "draft_refund_request"
    arguments_model = DraftRefundRequestArguments
    facts_model = DraftRefundFacts
    result_model = DraftRefundRequestResult

    async def read_facts(
        self, arguments: DraftRefundRequestArguments, binding: Binding, systems: Systems
    ) -> DraftRefundFacts | Refusal:
        order = await own_order(systems.orders, arguments.order_id, binding)
        if isinstance(order, Refusal):
            return order
        at = datetime.now(UTC)
        return DraftRefundFacts(
            order=order_facts(order, at),
            customer=customer_facts(order.customer),
            paid_cents=sum(each.captured_cents for each in order.payments),
            facts_at=at,
        )

    def check(self, arguments: DraftRefundRequestArguments, facts: DraftRefundFacts) -> Refusal | None:
        if arguments.currency != facts.order.currency:
            return currency_mismatch(facts.order.order_id, facts.order.currency, arguments.currency)
        if arguments.amount_cents <= facts.paid_cents:
            return None
        explanation = Explanation(
            values={
                "order_id": facts.order.order_id,
                "paid_cents": facts.paid_cents,
                "requested_cents": arguments.amount_cents,
                "max_amount_cents": facts.paid_cents,
                "repair": f"Draft again with amount_cents <= {facts.paid_cents} and a new idempotency_key.",
            },
            allowed={"max_amount_cents": facts.paid_cents},
            invalid_fields=("amount_cents",),
        )
        return Refusal(code=Code.REFUND_EXCEEDS_PAID, explanation=explanation)

    def claim(self, arguments: DraftRefundRequestArguments, facts: DraftRefundFacts) -> Claim | None:
        return None

    def matters(self, facts: DraftRefundFacts) -> dict[str, JsonValue]:
        return {
            "order_status": facts.order.status,
            "fraud_flag": facts.customer.fraud_flag,
            "currency": facts.order.currency,
            "paid_cents": facts.paid_cents,
        }

    def target(self, arguments: DraftRefundRequestArguments, facts: DraftRefundFacts) -> dict[str, JsonValue]:
        return DraftTarget(
            order_id=facts.order.order_id,
            payment_id=arguments.payment_id,
            amount_cents=arguments.amount_cents,
            currency=facts.order.currency,
            reason_code=arguments.reason_code,
        ).model_dump(exclude_none=True)

    def title(self, arguments: DraftRefundRequestArguments, facts: DraftRefundFacts) -> str:
        amount = Money(amount=arguments.amount_cents, currency=facts.order.currency)
        return f"Draft a refund of {amount} of order {facts.order.order_id}"

    async def execute(self, effect: Effect, systems: Systems) -> Attempt:
        return await systems.orders.create_draft(_request(effect))

    async def inspect(self, effect: Effect, systems: Systems) -> Inspection:
        return await systems.orders.find_draft(_request(effect))

    def presumed(self, effect: Effect, remote_id: str) -> dict[str, JsonValue]:
        target = DraftTarget.model_validate(effect.target)
        return DraftRefundRequestResult(
            draft_id=remote_id,
            order_id=target.order_id,
            amount_cents=target.amount_cents,
            currency=target.currency,
        ).model_dump()

    def done(self, arguments: DraftRefundRequestArguments, result: dict[str, JsonValue]) -> str:
        amount = Money(amount=arguments.amount_cents, currency=arguments.currency)
        return f"drafted a refund of {amount} of order {arguments.order_id}; no money moved, and nobody was asked yet"


def _request(effect: Effect) -> DraftRequest:
    target = DraftTarget.model_validate(effect.target)
    return DraftRequest(
        order_id=target.order_id,
        payment_id=target.payment_id,
        amount=target.amount_cents,
        currency=target.currency,
        reason=target.reason_code,
        operation_id=effect.operation_id,
        idempotency_key=effect.gateway_key,
    )


TOOL = DraftRefundRequest()
