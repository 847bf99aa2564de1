"""Gateways that live in memory: what they hold is what a test puts in."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateways.protocols import OrderChange, RefundRequest, Systems
from schemas.calls import Binding
from schemas.effects import Absent, Attempt, Confirmed, Exchange, Inspection
from schemas.facts import Customer, Order, Payment, Refund
from tools.catalog import Catalog

EXCHANGE = Exchange(system="test", method="POST", path_template="/", reached="response_received", elapsed_ms=1)


class MemoryPayments:
    """A `PaymentGateway` without a network. `fail` is raised by every read."""

    name = "memory"
    key_validity = timedelta(hours=24)

    def __init__(self) -> None:
        self.held: dict[str, Payment] = {}
        self.made: list[Refund] = []
        self.requests: list[RefundRequest] = []
        self.fail: Exception | None = None

    async def payment(self, payment_id: str) -> Payment | None:
        if self.fail is not None:
            raise self.fail
        return self.held.get(payment_id)

    async def refunds(self, payment_id: str) -> Sequence[Refund]:
        if self.fail is not None:
            raise self.fail
        return [each for each in self.made if each.payment_id == payment_id]

    async def refunds_between(self, since: datetime, until: datetime) -> Sequence[Refund] | None:
        return [each for each in self.made if since <= each.created_at < until]

    async def refund(self, request: RefundRequest) -> Attempt:
        self.requests.append(request)
        result = {"refund_id": "re_1", "amount_cents": request.amount, "currency": "USD", "status": "pending"}
        return Confirmed.model_validate({"remote_id": "re_1", "result": result, "exchange": EXCHANGE})

    async def find_refund(self, request: RefundRequest) -> Inspection:
        self.requests.append(request)
        return Absent(exchange=EXCHANGE)


class MemoryOrders:
    """An `OrderSystem` without a network."""

    name = "memory"
    key_validity = timedelta(hours=24)

    def __init__(self) -> None:
        self.held: dict[str, Order] = {}
        self.changes: list[OrderChange] = []

    async def order(self, order_id: str) -> Order | None:
        return self.held.get(order_id)

    async def orders(self, customer_id: str, limit: int) -> tuple[Sequence[Order], int]:
        own = [each for each in self.held.values() if each.customer_id == customer_id]
        newest_first = sorted(own, key=lambda each: each.placed_at, reverse=True)
        return newest_first[:limit], len(own)

    async def change(self, change: OrderChange) -> Attempt:
        self.changes.append(change)
        result = {"order_id": change.order_id, "status": "cancelled"}
        return Confirmed.model_validate({"remote_id": change.operation_id, "result": result, "exchange": EXCHANGE})

    async def find_change(self, change: OrderChange) -> Inspection:
        self.changes.append(change)
        return Absent(exchange=EXCHANGE)


class World:
    """Orders and payments as a test lays them out, and the run's binding."""

    def __init__(self) -> None:
        self.payments, self.orders = MemoryPayments(), MemoryOrders()
        self.systems = Systems(payments=self.payments, orders=self.orders)
        self.binding = Binding(tenant="t", run_id="run_1", agent_id="bot", actor_id="user", customer_id="cus_ada")

    def payment(self, payment_id: str = "ch_1", **changes: Any) -> Payment:
        values = {
            "payment_id": payment_id,
            "currency": "USD",
            "captured_cents": 10_000,
            "refunded_cents": 0,
            "disputed": False,
            "method": "card",
            "last4": "4242",
        }
        payment = Payment.model_validate(values | changes)
        self.payments.held[payment_id] = payment
        return payment

    def order(
        self, order_id: str = "ord_000000000001", *, payments: Sequence[str] = ("ch_1",), **changes: Any
    ) -> Order:
        values = {
            "order_id": order_id,
            "customer_id": "cus_ada",
            "status": "delivered",
            "placed_at": datetime.now(UTC) - timedelta(days=3),
            "currency": "USD",
            "items": (),
            "payments": tuple({"payment_id": each, "method": "card", "captured_cents": 10_000} for each in payments),
            "disputed": False,
            "shipping_address": {
                "line1": "1 Example Street",
                "city": "Springfield",
                "postal_code": "1",
                "country": "US",
            },
            "tracking_ids": ("T1",),
            "version": 4,
            "customer": Customer(customer_id="cus_ada", name="Ada Example", fraud_flag=False),
        }
        order = Order.model_validate(values | changes)
        self.orders.held[order_id] = order
        return order


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return Catalog.load()
