"""The facts that more than one tool decides on, under the names that policies use."""

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import StringConstraints

from gateways.protocols import OrderSystem, SystemUnavailable
from schemas.base import Model
from schemas.calls import Binding
from schemas.codes import Code
from schemas.facts import Customer, Order, OrderStatus
from schemas.money import Currency, Minor
from schemas.replies import Explanation
from tools.protocol import Refusal

T = TypeVar("T")

# The class is spelled out: `\d` and `\w` would take look-alike digits and letters of other scripts.
OrderId = Annotated[str, StringConstraints(pattern=r"^ord_[0-9A-Za-z]{12}$")]
PaymentId = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z_-]{1,255}$")]


class OrderFacts(Model):
    """`facts.order`. `age_minutes` is whole minutes from `placed_at` to `facts_at`."""

    order_id: str
    status: OrderStatus
    placed_at: datetime
    age_minutes: int
    disputed: bool
    version: int
    currency: Currency


class CustomerFacts(Model):
    """`facts.customer`."""

    fraud_flag: bool


class PaymentFacts(Model):
    """`facts.payment`: the payment that a refund would go to, as its gateway reports it."""

    payment_id: str
    method: str
    last4: str | None
    captured_cents: Minor
    refunded_cents: Minor
    disputed: bool


async def at_once(reads: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of reads that run at the same time, in order. The first that raises ends the others."""
    tasks = [asyncio.ensure_future(read) for read in reads]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def order_not_found(order_id: str) -> Refusal:
    """The one answer for an unknown order and for another customer's, so that neither can be told from the other."""
    return Refusal(code=Code.ORDER_NOT_FOUND, explanation=Explanation(values={"order_id": order_id}))


def unknown_record(field: str, what: str) -> Refusal:
    """The one answer for a record that is not there and for another customer's; `field` is the argument that names it,
    `what` the record, e.g. `ticket of this customer`."""
    problem = f"{field} names no {what}"
    return Refusal(
        code=Code.INVALID_INPUT, explanation=Explanation(values={"problem": problem}, invalid_fields=(field,))
    )


async def own_order(orders: OrderSystem, order_id: str, binding: Binding) -> Order | Refusal:
    """The order when it is the run's customer's. Raises SystemUnavailable."""
    order = await orders.order(order_id)
    if order is None or order.customer_id != binding.customer_id:
        return order_not_found(order_id)
    return order


def order_facts(order: Order, at: datetime) -> OrderFacts:
    """Pure. `at` is the moment the order was read, with its time zone."""
    return OrderFacts(
        order_id=order.order_id,
        status=order.status,
        placed_at=order.placed_at,
        age_minutes=int((at - order.placed_at).total_seconds() // 60),
        disputed=order.disputed,
        version=order.version,
        currency=order.currency,
    )


def customer_facts(customer: Customer | None) -> CustomerFacts:
    """Raises SystemUnavailable when the order came without its customer: no flag read is not no flag set."""
    if customer is None:
        raise SystemUnavailable("orders", "customer_missing")
    return CustomerFacts(fraud_flag=customer.fraud_flag)
