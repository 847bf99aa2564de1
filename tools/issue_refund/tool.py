"""The refund tool: reads who paid what and how, and sends one refund to one payment."""

from collections.abc import Sequence, Set
from datetime import UTC, datetime

from pydantic import JsonValue

from gateways.protocols import PaymentGateway, RefundRequest, Systems, SystemUnavailable
from schemas.base import Model
from schemas.calls import Binding
from schemas.codes import Code
from schemas.decisions import Claim
from schemas.effects import Attempt, Confirmed, Effect, Inspection
from schemas.facts import Order, Payment
from schemas.money import Currency, Minor, Money
from schemas.replies import Explanation
from tools.facts import PaymentFacts, at_once, customer_facts, order_facts, own_order
from tools.issue_refund.models import SMALLEST_REFUND, IssueRefundArguments, IssueRefundFacts, IssueRefundResult
from tools.protocol import Refusal, WriteTool


class RefundTarget(Model):
    """`Effect.target` of a refund."""

    order_id: str
    payment_id: str
    amount_cents: Minor
    currency: Currency
    reason_code: str
    note: str | None = None


class IssueRefund(WriteTool[IssueRefundArguments, IssueRefundFacts, IssueRefundResult]):
    """One refund. The amount can never be more than the chosen payment has left at its gateway."""

    name = "issue_refund"
    arguments_model = IssueRefundArguments
    facts_model = IssueRefundFacts
    result_model = IssueRefundResult
    untrusted_arguments = ("note",)
    amendable = ("amount_cents", "reason_code")
    undone_late = True

    async def read_facts(
        self, arguments: IssueRefundArguments, binding: Binding, systems: Systems
    ) -> IssueRefundFacts | Refusal:
        order = await own_order(systems.orders, arguments.order_id, binding)
        if isinstance(order, Refusal):
            return order
        payments = await _payments(systems.payments, order)
        if not payments:
            return _not_refundable(order, "the payment system knows no payment of it")
        named = arguments.payment_id
        if named is not None and named not in {payment.payment_id for payment in payments}:
            return _not_refundable(order, "it was not paid with the payment that was named")
        return build_facts(order, payments, datetime.now(UTC), named)

    def check(self, arguments: IssueRefundArguments, facts: IssueRefundFacts) -> Refusal | None:
        paid_in = facts.order.currency
        if arguments.currency == paid_in:
            return None
        return Refusal(
            code=Code.CURRENCY_MISMATCH,
            explanation=Explanation(
                values={
                    "order_id": facts.order.order_id,
                    "currency": paid_in,
                    "requested_currency": arguments.currency,
                },
                allowed={"currency": paid_in},
                invalid_fields=("currency",),
            ),
        )

    def claim(self, arguments: IssueRefundArguments, facts: IssueRefundFacts) -> Claim:
        return Claim(
            resource=f"payment:{facts.payment.payment_id}",
            amount=arguments.amount_cents,
            available=facts.refundable_cents,
            currency=facts.order.currency,
        )

    def exceeded(self, arguments: IssueRefundArguments, facts: IssueRefundFacts, available: int) -> Explanation:
        left = max(available, 0)
        return Explanation(
            values={
                "order_id": facts.order.order_id,
                "paid_cents": facts.paid_cents,
                "requested_cents": arguments.amount_cents,
                "max_amount_cents": left,
                "repair": _repair(left),
            },
            allowed={"max_amount_cents": left},
            invalid_fields=("amount_cents",),
        )

    async def in_facts(self, operation_ids: Set[str], facts: IssueRefundFacts, systems: Systems) -> Set[str] | None:
        standing = [each for each in await systems.payments.refunds(facts.payment.payment_id) if each.stands]
        if sum(each.amount_cents for each in standing) != facts.payment.refunded_cents:
            # Another went out since the facts were read, or the list is behind.
            return None
        return operation_ids & {each.operation_id for each in standing}

    def matters(self, facts: IssueRefundFacts) -> dict[str, JsonValue]:
        return {
            "order_status": facts.order.status,
            "order_disputed": facts.order.disputed,
            "fraud_flag": facts.customer.fraud_flag,
            "payment_id": facts.payment.payment_id,
            "payment_disputed": facts.payment.disputed,
            "currency": facts.order.currency,
        }

    def target(self, arguments: IssueRefundArguments, facts: IssueRefundFacts) -> dict[str, JsonValue]:
        return RefundTarget(
            order_id=facts.order.order_id,
            payment_id=facts.payment.payment_id,
            amount_cents=arguments.amount_cents,
            currency=facts.order.currency,
            reason_code=arguments.reason_code,
            note=arguments.note,
        ).model_dump(exclude_none=True)

    def title(self, arguments: IssueRefundArguments, facts: IssueRefundFacts) -> str:
        amount = Money(amount=arguments.amount_cents, currency=facts.order.currency)
        return f"Refund {amount} to {_destination(facts.payment)} of order {facts.order.order_id}"

    async def execute(self, effect: Effect, systems: Systems) -> Attempt:
        request, order_id = _request(effect)
        outcome = await systems.payments.refund(request)
        return _with_order(outcome, order_id) if isinstance(outcome, Confirmed) else outcome

    async def inspect(self, effect: Effect, systems: Systems) -> Inspection:
        request, order_id = _request(effect)
        outcome = await systems.payments.find_refund(request)
        return _with_order(outcome, order_id) if isinstance(outcome, Confirmed) else outcome

    def presumed(self, effect: Effect, remote_id: str) -> dict[str, JsonValue]:
        target = RefundTarget.model_validate(effect.target)
        return IssueRefundResult(
            refund_id=remote_id,
            order_id=target.order_id,
            amount_cents=target.amount_cents,
            currency=target.currency,
            status="succeeded",
        ).model_dump()

    def done(self, arguments: IssueRefundArguments, result: dict[str, JsonValue]) -> str:
        amount = Money(amount=arguments.amount_cents, currency=arguments.currency)
        state = "" if result.get("status") == "succeeded" else "; the bank has not completed it yet"
        return f"refunded {amount} of order {arguments.order_id}{state}"


async def _payments(gateway: PaymentGateway, order: Order) -> list[Payment]:
    """The order's payments as their gateway reports them, read at the same time; those it does not know are left out.

    Raises SystemUnavailable, also for a payment in another currency than its order's: such a fact cannot be believed.
    """
    read = await at_once([gateway.payment(each.payment_id) for each in order.payments])
    payments = [payment for payment in read if payment is not None]
    if any(payment.currency != order.currency for payment in payments):
        raise SystemUnavailable("payments", "currency_differs")
    return payments


def _left(payment: Payment) -> int:
    return max(payment.captured_cents - payment.refunded_cents, 0)


def _not_refundable(order: Order, because: str) -> Refusal:
    values: dict[str, str | int] = {"order_id": order.order_id, "because": because}
    return Refusal(code=Code.NOT_REFUNDABLE, explanation=Explanation(values=values))


def build_facts(order: Order, payments: Sequence[Payment], at: datetime, named: str | None = None) -> IssueRefundFacts:
    """Pure. Of a split tender the `named` payment is taken, which is one of them; without a name the one with most left
    is: if any can take the whole amount, it can.

    A dispute on any of the order's payments counts as one on the order: its money may be on its way back already.
    """
    chosen = max((each for each in payments if named in (None, each.payment_id)), key=_left)
    disputed = order.disputed or any(payment.disputed for payment in payments)
    return IssueRefundFacts(
        order=order_facts(order, at).model_copy(update={"disputed": disputed}),
        customer=customer_facts(order.customer),
        payment=PaymentFacts(
            payment_id=chosen.payment_id,
            method=chosen.method,
            last4=chosen.last4,
            captured_cents=chosen.captured_cents,
            refunded_cents=chosen.refunded_cents,
            disputed=chosen.disputed,
        ),
        paid_cents=sum(payment.captured_cents for payment in payments),
        refundable_cents=_left(chosen),
        facts_at=at,
    )


def _repair(left: int) -> str:
    if left >= SMALLEST_REFUND:
        return f"Send again with amount_cents <= {left} and a new idempotency_key, or hand over to a person."
    if left > 0:
        return "That is less than the smallest refund this tool can make; do not send it again, hand over to a person."
    return "Nothing is left to refund; do not send it again."


def _destination(payment: PaymentFacts) -> str:
    method = payment.method.replace("_", " ")
    return f"the {method} ending {payment.last4}" if payment.last4 else f"the {method}"


def _request(effect: Effect) -> tuple[RefundRequest, str]:
    target = RefundTarget.model_validate(effect.target)
    request = RefundRequest(
        payment_id=target.payment_id,
        amount=target.amount_cents,
        currency=target.currency,
        reason=target.reason_code,
        operation_id=effect.operation_id,
        idempotency_key=effect.gateway_key,
        note=target.note,
    )
    return request, target.order_id


def _with_order(outcome: Confirmed, order_id: str) -> Confirmed:
    return outcome.model_copy(update={"result": {**outcome.result, "order_id": order_id}})


TOOL = IssueRefund()
