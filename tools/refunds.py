"""What every tool that gives money back has in common: the facts, what they take of a payment, and one refund."""

from abc import abstractmethod
from collections.abc import Sequence, Set
from datetime import UTC, datetime
from typing import Literal, NamedTuple, TypeVar

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
from tools.facts import CustomerFacts, OrderFacts, PaymentFacts, at_once, customer_facts, order_facts, own_order
from tools.protocol import Refusal, WriteArguments, WriteTool

SMALLEST_REFUND = 100

ReasonCode = Literal["damaged", "not_delivered", "late_delivery", "wrong_item", "quality", "billing_error", "goodwill"]


class RefundFacts(Model):
    """`payment` is the one that was named, or else the one of the order's that has most left to refund; that is
    `refundable_cents`.

    `paid_cents` is the sum over all of the order's payments.
    """

    order: OrderFacts
    customer: CustomerFacts
    payment: PaymentFacts
    paid_cents: Minor
    refundable_cents: Minor
    facts_at: datetime


class RefundResult(Model):
    """`status` is `succeeded`, `pending` (on its way) or `requires_action` (the customer must claim it)."""

    refund_id: str
    order_id: str
    amount_cents: Minor
    currency: Currency
    status: str


class RefundTarget(Model):
    """`Effect.target` of a refund."""

    order_id: str
    payment_id: str
    amount_cents: Minor
    currency: Currency
    reason_code: str
    note: str | None = None


class Wanted(NamedTuple):
    """What is asked for: minor units of `currency`, why, and the agent's own words."""

    amount: int
    currency: str
    reason: str
    note: str | None


W = TypeVar("W", bound=WriteArguments)
F = TypeVar("F", bound=RefundFacts)


class RefundTool(WriteTool[W, F, RefundResult]):
    """One refund. The amount can never be more than the chosen payment has left at its gateway."""

    result_model = RefundResult
    untrusted_arguments = ("note",)
    undone_late = True

    @abstractmethod
    def wanted(self, arguments: W, facts: F) -> Wanted:
        """Pure. What is to be refunded."""

    @abstractmethod
    def repair(self, left: int) -> str:
        """Pure. What an agent does that asked for more than the `left` minor units."""

    def check(self, arguments: W, facts: F) -> Refusal | None:
        wanted, paid_in = self.wanted(arguments, facts).currency, facts.order.currency
        return None if wanted == paid_in else currency_mismatch(facts.order.order_id, paid_in, wanted)

    def claim(self, arguments: W, facts: F) -> Claim:
        return Claim(
            resource=f"payment:{facts.payment.payment_id}",
            amount=self.wanted(arguments, facts).amount,
            available=facts.refundable_cents,
            currency=facts.order.currency,
        )

    def exceeded(self, arguments: W, facts: F, available: int) -> Explanation:
        left = max(available, 0)
        return Explanation(
            values={
                "order_id": facts.order.order_id,
                "paid_cents": facts.paid_cents,
                "requested_cents": self.wanted(arguments, facts).amount,
                "max_amount_cents": left,
                "repair": self.repair(left),
            },
            allowed={"max_amount_cents": left},
            invalid_fields=("amount_cents",) if "amount_cents" in type(arguments).model_fields else (),
        )

    async def in_facts(self, operation_ids: Set[str], facts: F, systems: Systems) -> Set[str] | None:
        standing = [each for each in await systems.payments.refunds(facts.payment.payment_id) if each.stands]
        if sum(each.amount_cents for each in standing) != facts.payment.refunded_cents:
            # Another went out since the facts were read, or the list is behind.
            return None
        return operation_ids & {each.operation_id for each in standing}

    def matters(self, facts: F) -> dict[str, JsonValue]:
        return {
            "order_status": facts.order.status,
            "order_disputed": facts.order.disputed,
            "fraud_flag": facts.customer.fraud_flag,
            "payment_id": facts.payment.payment_id,
            "payment_disputed": facts.payment.disputed,
            "currency": facts.order.currency,
        }

    def target(self, arguments: W, facts: F) -> dict[str, JsonValue]:
        wanted = self.wanted(arguments, facts)
        return RefundTarget(
            order_id=facts.order.order_id,
            payment_id=facts.payment.payment_id,
            amount_cents=wanted.amount,
            currency=facts.order.currency,
            reason_code=wanted.reason,
            note=wanted.note,
        ).model_dump(exclude_none=True)

    def title(self, arguments: W, facts: F) -> str:
        amount = Money(amount=self.wanted(arguments, facts).amount, currency=facts.order.currency)
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
        return RefundResult(
            refund_id=remote_id,
            order_id=target.order_id,
            amount_cents=target.amount_cents,
            currency=target.currency,
            status="succeeded",
        ).model_dump()


async def read_refund_facts(
    order_id: str, payment_id: str | None, binding: Binding, systems: Systems
) -> RefundFacts | Refusal:
    """The facts about a refund of the run's customer's order, to the payment where one is named. Raises
    SystemUnavailable."""
    order = await own_order(systems.orders, order_id, binding)
    if isinstance(order, Refusal):
        return order
    payments = await _payments(systems.payments, order)
    if not payments:
        return _not_refundable(order, "the payment system knows no payment of it")
    if payment_id is not None and payment_id not in {payment.payment_id for payment in payments}:
        return _not_refundable(order, "it was not paid with the payment that was named")
    return build_facts(order, payments, datetime.now(UTC), payment_id)


def said(result: dict[str, JsonValue], amount: Money, order_id: str) -> str:
    """What was done, for the sentence of the reply."""
    state = "" if result.get("status") == "succeeded" else "; the bank has not completed it yet"
    return f"refunded {amount} of order {order_id}{state}"


def currency_mismatch(order_id: str, paid_in: str, wanted: str) -> Refusal:
    """The refusal of an amount in another currency than the order was paid in."""
    return Refusal(
        code=Code.CURRENCY_MISMATCH,
        explanation=Explanation(
            values={"order_id": order_id, "currency": paid_in, "requested_currency": wanted},
            allowed={"currency": paid_in},
            invalid_fields=("currency",),
        ),
    )


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


def build_facts(order: Order, payments: Sequence[Payment], at: datetime, named: str | None = None) -> RefundFacts:
    """Pure. Of a split tender the `named` payment is taken, which is one of them; without a name the one with most left
    is: if any can take the whole amount, it can.

    A dispute on any of the order's payments counts as one on the order: its money may be on its way back already.
    """
    chosen = max((each for each in payments if named in (None, each.payment_id)), key=_left)
    disputed = order.disputed or any(payment.disputed for payment in payments)
    return RefundFacts(
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
