"""The shop's order system: a JSON API with idempotency keys, whose orders list the operations done to them."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, get_args

from pydantic import Field, JsonValue

from gateways.border import (
    Amount,
    Border,
    Instant,
    RemoteId,
    failed,
    problem_of,
    read,
    read_or_raise,
    unknown,
    unsent_or_unknown,
)
from gateways.http import Answer, Answered, Method, NotAnswered
from gateways.protocols import OrderChange, SystemUnavailable
from gateways.store_accounts import OPERATION, StoreAccounts, WireError, is_missing, refused
from schemas.codes import Code
from schemas.effects import Absent, Attempt, Confirmed, Exchange, Failed, Inspection, Unknown
from schemas.facts import Address, Customer, Order, OrderItem, OrderPayment, OrderStatus
from schemas.money import Currency
from schemas.replies import Explanation

ROUTES: Mapping[str, tuple[Method, str, str]] = {
    "cancel": ("POST", "/orders/{id}/cancel", "cancel"),
    "reinstate": ("POST", "/orders/{id}/reinstate", "reinstate"),
    "change_shipping_address": ("PUT", "/orders/{id}/shipping_address", "shipping_address"),
    "reset": ("POST", "/orders/{id}/reset", "reset"),
}
"""Our kind of change -> method, path and the store's word for it."""


class WireAddress(Border):
    line1: str
    line2: str | None = None
    city: str
    region: str | None = None
    postal_code: str
    country: str


class WireItem(Border):
    item_id: str
    name: str
    quantity: Annotated[int, Field(ge=0)]
    price_cents: Amount


class WirePayment(Border):
    payment_id: RemoteId
    method: str
    captured_cents: Amount


class WireCustomer(Border):
    customer_id: RemoteId
    name: str
    fraud_flag: bool


class WireOperation(Border):
    operation_id: str | None
    kind: str


class WireOrder(Border):
    order_id: RemoteId
    customer_id: RemoteId
    status: OrderStatus
    placed_at: Instant
    currency: Currency
    items: list[WireItem]
    payments: list[WirePayment]
    disputed: bool
    shipping_address: WireAddress
    tracking_ids: list[str]
    version: int
    operations: list[WireOperation]
    customer: WireCustomer | None = None


class WireOrders(Border):
    orders: list[WireOrder]
    total: Annotated[int, Field(ge=0)]


class StoreOrderSystem(StoreAccounts):
    """An `OrderSystem`."""

    name = "store"
    key_validity = timedelta(hours=24)

    async def order(self, order_id: str) -> Order | None:
        answer = await self._get(order_id, expand=True)
        if is_missing(answer):
            return None
        order = read_or_raise(WireOrder, answer, self._remote.system)
        if order.order_id != order_id or (order.customer and order.customer.customer_id != order.customer_id):
            raise SystemUnavailable(self._remote.system, "mismatched")
        return to_order(order)

    async def orders(self, customer_id: str, limit: int) -> tuple[Sequence[Order], int]:
        query = {"customer_id": customer_id, "limit": str(limit)}
        answer = await self._remote.exchange("GET", "/orders", query=query)
        page = read_or_raise(WireOrders, answer, self._remote.system)
        if any(each.customer_id != customer_id for each in page.orders):
            raise SystemUnavailable(self._remote.system, "mismatched")
        newest_first = sorted(page.orders, key=lambda each: each.placed_at, reverse=True)
        return [to_order(each) for each in newest_first[:limit]], page.total

    async def change(self, change: OrderChange) -> Attempt:
        method, template, _ = ROUTES[change.kind]
        body: dict[str, JsonValue] = {"metadata": {OPERATION: change.operation_id}}
        if change.reason is not None:
            body["reason"] = change.reason
        if change.address is not None:
            body["shipping_address"] = change.address.model_dump(exclude_none=True)
        answer = await self._remote.exchange(
            method, template, path={"id": change.order_id}, json=body, idempotency_key=change.idempotency_key
        )
        if isinstance(answer, NotAnswered):
            return unsent_or_unknown(answer)
        if answer.status != 200:
            return _refused(answer)
        order = read(WireOrder, answer.json)
        if order is None:
            return unknown(answer.exchange, "unreadable")
        if not is_done(order, change):
            return unknown(answer.exchange, "mismatched_operation")
        if not is_applied(order, change):
            return unknown(answer.exchange, "mismatched_state")
        return _confirmed(order, change, answer.exchange)

    async def find_change(self, change: OrderChange) -> Inspection:
        """The order's own list of operations tells; what happened to the order afterwards does not matter."""
        answer = await self._get(change.order_id, expand=False)
        order = read(WireOrder, answer.json) if isinstance(answer, Answered) and answer.status == 200 else None
        if order is None:
            return unknown(answer.exchange, problem_of(answer))
        if order.order_id != change.order_id:
            return unknown(answer.exchange, "mismatched_order")
        if not is_done(order, change):
            return Absent(exchange=answer.exchange)
        return _confirmed(order, change, answer.exchange)

    async def _get(self, order_id: str, *, expand: bool) -> Answer:
        query = {"expand": "customer"} if expand else None
        return await self._remote.exchange("GET", "/orders/{id}", path={"id": order_id}, query=query)


def to_order(wire: WireOrder) -> Order:
    """Pure. Without what the service has no use for, such as the customer's e-mail address."""
    customer = wire.customer
    return Order(
        order_id=wire.order_id,
        customer_id=wire.customer_id,
        status=wire.status,
        placed_at=wire.placed_at,
        currency=wire.currency,
        items=tuple(OrderItem(**each.model_dump()) for each in wire.items),
        payments=tuple(OrderPayment(**each.model_dump()) for each in wire.payments),
        disputed=wire.disputed,
        shipping_address=Address(**wire.shipping_address.model_dump()),
        tracking_ids=tuple(wire.tracking_ids),
        version=wire.version,
        customer=None if customer is None else Customer(**customer.model_dump()),
    )


def is_done(order: WireOrder, change: OrderChange) -> bool:
    """Pure. Whether the order lists our operation."""
    kind = ROUTES[change.kind][2]
    return any(each.operation_id == change.operation_id and each.kind == kind for each in order.operations)


def is_applied(order: WireOrder, change: OrderChange) -> bool:
    """Pure. Whether the order that answers a change is the asked one and looks as the change makes it."""
    if order.order_id != change.order_id:
        return False
    match change.kind:
        case "cancel":
            return order.status == "cancelled"
        case "reinstate":
            return order.status == "open"
        case "reset":
            return True
        case "change_shipping_address":
            return change.address == Address(**order.shipping_address.model_dump())


def _confirmed(order: WireOrder, change: OrderChange, exchange: Exchange) -> Confirmed:
    result: dict[str, JsonValue] = {"order_id": order.order_id, "status": order.status}
    return Confirmed(remote_id=change.operation_id, result=result, exchange=exchange)


def _refused(answer: Answered) -> Failed | Unknown:
    outcome = refused(answer)
    if not isinstance(outcome, Failed) or outcome.code is not Code.INVALID_STATE:
        return outcome
    error = read(WireError, answer.json)
    state = None if error is None else error.error.status
    known = state in get_args(OrderStatus)
    because = f"it is {state}" if known else "its state is another one by now"
    return failed(Code.INVALID_STATE, answer.exchange, Explanation(values={"because": because}))
