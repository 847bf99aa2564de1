"""Gateways that live in memory: what they hold is what a test puts in."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import JsonValue

from gateways.protocols import CreditRequest, DraftRequest, OrderChange, RefundRequest, ReplyRequest, Systems
from schemas.calls import Binding
from schemas.effects import Absent, Attempt, Confirmed, Exchange, Inspection
from schemas.facts import Account, Article, Customer, Order, Payment, Refund, RefundDraft, Shipment, Ticket
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


class MemoryAccounts:
    """An `AccountSystem` without a network."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.shipments: dict[str, Shipment] = {}
        self.drafts: dict[str, RefundDraft] = {}
        self.wanted: list[DraftRequest | CreditRequest] = []

    async def account(self, customer_id: str) -> Account | None:
        return self.accounts.get(customer_id)

    async def shipment(self, tracking_id: str) -> Shipment | None:
        return self.shipments.get(tracking_id)

    async def draft(self, draft_id: str) -> RefundDraft | None:
        return self.drafts.get(draft_id)

    async def create_draft(self, request: DraftRequest) -> Attempt:
        self.wanted.append(request)
        result: dict[str, JsonValue] = {
            "draft_id": "rfd_000000000001",
            "order_id": request.order_id,
            "amount_cents": request.amount,
            "currency": request.currency,
        }
        return Confirmed(remote_id="rfd_000000000001", result=result, exchange=EXCHANGE)

    async def find_draft(self, request: DraftRequest) -> Inspection:
        self.wanted.append(request)
        return Absent(exchange=EXCHANGE)

    async def credit(self, request: CreditRequest) -> Attempt:
        self.wanted.append(request)
        result: dict[str, JsonValue] = {
            "credit_id": "crd_1",
            "amount_cents": request.amount,
            "currency": request.currency,
            "balance_cents": request.amount,
        }
        return Confirmed(remote_id="crd_1", result=result, exchange=EXCHANGE)

    async def find_credit(self, request: CreditRequest) -> Inspection:
        self.wanted.append(request)
        return Absent(exchange=EXCHANGE)


class MemoryOrders(MemoryAccounts):
    """An `OrderSystem` without a network."""

    name = "memory"
    key_validity = timedelta(hours=24)

    def __init__(self) -> None:
        super().__init__()
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


class MemoryHelpdesk:
    """A `Helpdesk` without a network. `outcome` is what becomes of a reply."""

    name = "memory"
    key_validity = timedelta(0)

    def __init__(self) -> None:
        self.written: dict[str, Ticket] = {}
        self.library: list[Article] = []
        self.replies: list[ReplyRequest] = []

    async def articles(self, query: str, limit: int) -> tuple[Sequence[Article], int]:
        fitting = [each for each in self.library if query in each.body]
        return fitting[:limit], len(fitting)

    async def ticket(self, ticket_id: str) -> Ticket | None:
        return self.written.get(ticket_id)

    async def reply(self, request: ReplyRequest) -> Attempt:
        self.replies.append(request)
        result: dict[str, JsonValue] = {"ticket_id": request.ticket_id, "note_id": "12"}
        return Confirmed(remote_id="12", result=result, exchange=EXCHANGE)

    async def find_reply(self, request: ReplyRequest) -> Inspection:
        self.replies.append(request)
        return Absent(exchange=EXCHANGE)


class World:
    """Orders and payments as a test lays them out, and the run's binding."""

    def __init__(self) -> None:
        self.payments, self.orders = MemoryPayments(), MemoryOrders()
        self.helpdesk = MemoryHelpdesk()
        self.systems = Systems(payments=self.payments, orders=self.orders, helpdesk=self.helpdesk)
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
