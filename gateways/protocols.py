"""The two protocols behind which the outside world stands: payments and orders.

An adapter is one module beside this one and one line in `gateways.registry`; the contract suite in
`tests/gateways/` runs against every adapter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol

from schemas.base import Model
from schemas.effects import Attempt, Inspection
from schemas.facts import Address, Order, Payment, Refund
from schemas.money import Currency, Minor


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

    kind: Literal["cancel", "reinstate", "change_shipping_address"]
    order_id: str
    operation_id: str
    idempotency_key: str
    reason: str | None = None
    address: Address | None = None


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


class OrderSystem(Protocol):
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


@dataclass(frozen=True, slots=True)
class Systems:
    """The outside systems that a process holds credentials for."""

    payments: PaymentGateway
    orders: OrderSystem
