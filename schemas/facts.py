"""What the owners of orders and payments say. Read through gateways, recorded with every decision."""

from datetime import datetime
from typing import Literal

from schemas.base import Model
from schemas.money import Currency, Minor

OrderStatus = Literal["open", "shipped", "delivered", "cancelled"]


class Address(Model):
    line1: str
    line2: str | None = None
    city: str
    region: str | None = None
    postal_code: str
    country: str


class OrderItem(Model):
    item_id: str
    name: str
    quantity: int
    price_cents: Minor


class OrderPayment(Model):
    """A tender of the order as the shop recorded it; what was really captured is the gateway's to say."""

    payment_id: str
    method: str
    captured_cents: Minor


class Customer(Model):
    customer_id: str
    name: str
    fraud_flag: bool


class Order(Model):
    order_id: str
    customer_id: str
    status: OrderStatus
    placed_at: datetime
    currency: Currency
    items: tuple[OrderItem, ...]
    payments: tuple[OrderPayment, ...]
    disputed: bool
    shipping_address: Address
    tracking_ids: tuple[str, ...]
    version: int
    customer: Customer | None = None


class Account(Model):
    """How a customer stands with the shop; `credit_cents` of store credit in the account's `currency`."""

    customer_id: str
    since: datetime | None
    tier: str
    currency: Currency
    credit_cents: Minor
    open_orders: int
    fraud_flag: bool


class ShipmentEvent(Model):
    at: datetime
    state: str
    place: str


class Shipment(Model):
    """A parcel, its events newest first. `note` is what a courier or a customer wrote: not to be believed."""

    tracking_id: str
    order_id: str
    carrier: str
    state: str
    events: tuple[ShipmentEvent, ...]
    note: str | None = None


class RefundDraft(Model):
    """A refund that was written down and not made."""

    draft_id: str
    order_id: str
    customer_id: str
    payment_id: str | None
    amount_cents: Minor
    currency: Currency
    reason: str | None


class Article(Model):
    """A help article."""

    article_id: str
    title: str
    body: str
    updated_at: datetime


class TicketNote(Model):
    """What was written on a ticket: by us, where it carries an operation id."""

    note_id: str
    body: str
    public: bool
    operation_id: str | None = None
    altered: bool = False
    """Whether its words are others than those that we wrote."""
    posts: str | None = None
    """The note whose words these are, posted."""


class Ticket(Model):
    """A ticket. `customer_id` is who asked, as the shop knows them; None for somebody that the shop does not know."""

    ticket_id: str
    customer_id: str | None
    status: str
    updated_stamp: str
    notes: tuple[TicketNote, ...]


class Payment(Model):
    """A captured payment as its gateway reports it now."""

    payment_id: str
    currency: Currency
    captured_cents: Minor
    refunded_cents: Minor
    disputed: bool
    method: str
    last4: str | None = None


class Refund(Model):
    """A refund as its gateway lists it."""

    refund_id: str
    payment_id: str
    amount_cents: Minor
    currency: Currency
    status: str
    created_at: datetime
    operation_id: str | None = None

    @property
    def stands(self) -> bool:
        """Whether it takes something of the payment: one that failed or was canceled gives it back."""
        return self.status not in ("failed", "canceled")
