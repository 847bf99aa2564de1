"""The order list."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from gateways.protocols import Systems
from schemas.base import Model
from schemas.calls import Binding
from schemas.facts import Order, OrderStatus
from schemas.money import Currency, Minor
from tools.protocol import Arguments, ReadTool, Refusal

# How many of the newest orders are looked through for those of a status.
SEARCHED = 100


class LookupOrdersArguments(Arguments):
    limit: Annotated[int, Field(ge=1, le=20, description="How many orders at most")] = 10
    status: Annotated[OrderStatus | None, Field(description="Only orders in this state")] = None


class OrderItemLine(Model):
    name: str
    quantity: int
    price_cents: Minor


class OrderLine(Model):
    order_id: str
    status: OrderStatus
    placed_at: datetime
    currency: Currency
    paid_cents: Minor
    items: tuple[OrderItemLine, ...]
    tracking_ids: tuple[str, ...]
    disputed: bool
    payment_ids: tuple[str, ...] | None = None
    """Only of an order that was paid with several, where a refund may have to name one."""


class LookupOrdersResult(Model):
    """`count` is how many there are in all, as far as was looked; `truncated`: some are not shown."""

    orders: tuple[OrderLine, ...]
    count: int
    truncated: bool


class LookupOrders(ReadTool[LookupOrdersArguments, LookupOrdersResult]):
    name = "lookup_orders"
    arguments_model = LookupOrdersArguments
    result_model = LookupOrdersResult

    async def read(
        self, arguments: LookupOrdersArguments, binding: Binding, systems: Systems
    ) -> LookupOrdersResult | Refusal:
        wanted = arguments.limit if arguments.status is None else SEARCHED
        orders, total = await systems.orders.orders(binding.customer_id, wanted)
        fitting = [order for order in orders if arguments.status in (None, order.status)]
        shown = fitting[: arguments.limit]
        all_seen = len(orders) >= total
        return LookupOrdersResult(
            orders=tuple(order_line(order) for order in shown),
            count=total if arguments.status is None else len(fitting),
            truncated=len(shown) < len(fitting) or not all_seen,
        )

    def is_empty(self, result: LookupOrdersResult) -> bool:
        return not result.orders

    def done(self, arguments: LookupOrdersArguments, result: LookupOrdersResult | None) -> str:
        of_status = "" if arguments.status is None else f"{arguments.status} "
        if result is None or not result.orders:
            return f"no {of_status}orders of this customer"
        return f"{len(result.orders)} of {result.count} {of_status}orders of this customer"


def order_line(order: Order) -> OrderLine:
    """Pure. Of payments the sum of what was captured, and which there are when there are several."""
    return OrderLine(
        order_id=order.order_id,
        status=order.status,
        placed_at=order.placed_at,
        currency=order.currency,
        paid_cents=sum(payment.captured_cents for payment in order.payments),
        items=tuple(
            OrderItemLine(name=item.name, quantity=item.quantity, price_cents=item.price_cents) for item in order.items
        ),
        tracking_ids=order.tracking_ids,
        disputed=order.disputed,
        payment_ids=tuple(each.payment_id for each in order.payments) if len(order.payments) > 1 else None,
    )


TOOL = LookupOrders()
