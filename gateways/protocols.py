"""The protocols behind which the outside world stands: payments, orders and the helpdesk.

An adapter is one module beside this one and one line in `gateways.registry`; the contract suite in
`tests/gateways/` runs against every adapter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, Protocol

from gateways.http import Remote
from gateways.upstreams import Upstream
from schemas.base import Model
from schemas.effects import Attempt, Inspection
from schemas.facts import Account, Address, Article, Order, Payment, Refund, RefundDraft, Shipment, Ticket
from schemas.money import Currency, Minor
from schemas.tools import Queue


class SystemUnavailable(Exception):
    """A read failed: not reached, refused our credential, or an answer that cannot be believed.

    Carries only our own words: `system` (e.g. "payments") and `problem` (e.g. "timeout").
    """

    def __init__(self, system: str, problem: str) -> None:
        super().__init__(f"{system}: {problem}")
        self.system = system
        self.problem = problem


class RefundRequest(Model):
    """A refund to be made or looked up. `amount` in minor units of `currency`."""

    payment_id: str
    amount: Minor
    currency: Currency
    reason: str
    """Our reason code; the adapter maps it to the gateway's own list."""
    operation_id: str
    idempotency_key: str
    note: str | None = None
    """The agent's own words, whole; the adapter cuts them to what its gateway takes."""


class OrderChange(Model):
    """A write on an order. `kind` names the operation, `address` is given for `change_shipping_address`."""

    kind: Literal["cancel", "reinstate", "change_shipping_address", "reset"]
    order_id: str
    operation_id: str
    idempotency_key: str
    reason: str | None = None
    address: Address | None = None


class DraftRequest(Model):
    """A refund that is only written down. `amount` in minor units of `currency`."""

    order_id: str
    payment_id: str | None
    amount: Minor
    currency: Currency
    reason: str
    operation_id: str
    idempotency_key: str


class CreditRequest(Model):
    """Store credit for a customer. `amount` in minor units of `currency`, which is the account's."""

    customer_id: str
    amount: Minor
    currency: Currency
    reason: str
    operation_id: str
    idempotency_key: str


class ReplyRequest(Model):
    """Words on a ticket: an internal draft, or with `public` a reply that the customer reads.

    `draft_id` is the draft that a reply posts. `updated_stamp` is when the ticket was last changed as the facts say it:
    the helpdesk refuses to add to one that was changed since.
    """

    ticket_id: str
    body: str
    public: bool
    updated_stamp: str
    operation_id: str
    draft_id: str | None = None


class PaymentGateway(Protocol):
    """Moves money back. Writes never raise for what the remote did: they classify it."""

    name: str
    key_validity: timedelta
    """How long the gateway remembers an idempotency key, counted from the first send."""

    async def payment(self, payment_id: str) -> Payment | None:
        """The payment as it stands now; None when the gateway does not know it. Raises SystemUnavailable."""
        ...

    async def refunds(self, payment_id: str) -> Sequence[Refund]:
        """Every refund of the payment, newest first, all pages. Raises SystemUnavailable."""
        ...

    async def refunds_between(self, since: datetime, until: datetime) -> Sequence[Refund] | None:
        """Every refund that was made in that time by the gateway's clock, of any payment and by anybody, all pages:
        from `since` on and before `until`. None where the gateway has no such list. Raises SystemUnavailable."""
        ...

    async def refund(self, request: RefundRequest) -> Attempt:
        """One attempt, sent at most once. `Confirmed.result`: refund_id, amount_cents, currency, status."""
        ...

    async def find_refund(self, request: RefundRequest) -> Inspection:
        """Look for the refund by operation id. `Absent` when the whole list was read without finding it."""
        ...


class AccountSystem(Protocol):
    """Owns customers' accounts, parcels, and refunds that are only drafted. Writes never raise for what it did."""

    async def account(self, customer_id: str) -> Account | None:
        """How the customer stands; None when there is none. Raises SystemUnavailable."""
        ...

    async def shipment(self, tracking_id: str) -> Shipment | None:
        """The parcel, events newest first; None when there is none. Raises SystemUnavailable."""
        ...

    async def draft(self, draft_id: str) -> RefundDraft | None:
        """A refund draft; None when there is none. Raises SystemUnavailable."""
        ...

    async def create_draft(self, request: DraftRequest) -> Attempt:
        """One attempt, sent at most once. `Confirmed.result`: draft_id, order_id, amount_cents, currency."""
        ...

    async def find_draft(self, request: DraftRequest) -> Inspection:
        """Look for the draft by operation id."""
        ...

    async def credit(self, request: CreditRequest) -> Attempt:
        """One attempt, sent at most once. `Confirmed.result`: credit_id, amount_cents, currency, balance_cents."""
        ...

    async def find_credit(self, request: CreditRequest) -> Inspection:
        """Look for the credit by operation id."""
        ...


class OrderSystem(AccountSystem, Protocol):
    """Owns orders and customers."""

    name: str
    key_validity: timedelta

    async def order(self, order_id: str) -> Order | None:
        """The order with its `customer`; None when there is none. Raises SystemUnavailable."""
        ...

    async def orders(self, customer_id: str, limit: int) -> tuple[Sequence[Order], int]:
        """The customer's newest orders (at most `limit`, without `customer`) and how many there are in all."""
        ...

    async def change(self, change: OrderChange) -> Attempt:
        """One attempt, sent at most once. `Confirmed.result`: order_id, status.

        `Failed` with INVALID_STATE where the order's state does not allow it.
        """
        ...

    async def find_change(self, change: OrderChange) -> Inspection:
        """Look for the operation on the order by operation id."""
        ...


class Helpdesk(Protocol):
    """Owns tickets and help articles. Writes never raise for what the remote did: they classify it."""

    name: str
    key_validity: timedelta
    """Zero where a write carries no key that the helpdesk remembers."""

    async def articles(self, query: str, limit: int) -> tuple[Sequence[Article], int]:
        """The articles that fit best (at most `limit`), and how many fit at all. Raises SystemUnavailable."""
        ...

    async def ticket(self, ticket_id: str) -> Ticket | None:
        """The ticket with all that was written on it; None when there is none. Raises SystemUnavailable."""
        ...

    async def reply(self, request: ReplyRequest) -> Attempt:
        """One attempt, sent at most once. `Confirmed.result`: ticket_id, note_id."""
        ...

    async def find_reply(self, request: ReplyRequest) -> Inspection:
        """Look for the words on the ticket by operation id."""
        ...


@dataclass(frozen=True, slots=True)
class Systems:
    """The outside systems that a process holds credentials for."""

    payments: PaymentGateway
    orders: OrderSystem
    helpdesk: Helpdesk
    remotes: Mapping[str, Remote] = field(default_factory=dict[str, Remote])
    """Systems without an adapter, by the names that the settings give them."""

    upstreams: Mapping[str, Upstream] = field(default_factory=dict[str, Upstream])
    """MCP servers, by the names that the settings give them."""

    def upstream(self, name: str) -> Upstream:
        """Raises LookupError for one whose credential another process holds."""
        if name not in self.upstreams:
            raise LookupError(f"this process holds no credential for {name}")
        return self.upstreams[name]

    def remote(self, name: str) -> Remote:
        """Raises LookupError for a system whose credential another process holds."""
        if name not in self.remotes:
            raise LookupError(f"this process holds no credential for {name}")
        return self.remotes[name]

    def of_queue(self, queue: Queue) -> PaymentGateway | OrderSystem | Helpdesk:
        """The system that effects on that queue go to."""
        match queue:
            case "payments":
                return self.payments
            case "orders":
                return self.orders
            case "messages":
                return self.helpdesk
