"""What a line of `orders.jsonl` and `customers.jsonl` holds, validated strictly. Amounts are integer minor units."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

MAX_AMOUNT = 10**12


def _aware(value: str) -> str:
    if datetime.fromisoformat(value).tzinfo is None:
        raise ValueError("needs a time zone")
    return value


Identifier = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z_-]{1,64}$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Word = Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,40}$")]
Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
Instant = Annotated[str, AfterValidator(_aware)]
Cents = Annotated[int, Field(ge=0, le=MAX_AMOUNT)]


class Line(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class Customer(Line):
    customer_id: Identifier
    name: Name
    email: Name
    fraud_flag: bool = False
    since: Instant | None = None
    tier: Word | None = None
    currency: Currency | None = None


class Shipment(Line):
    """A parcel of an order; `note` is what a courier or the customer wrote on it."""

    tracking_id: Identifier
    order_id: Identifier
    carrier: Name
    state: Word
    events: list["ShipmentEvent"] = []
    note: Annotated[str, StringConstraints(max_length=2000)] | None = None


class ShipmentEvent(Line):
    at: Instant
    state: Word
    place: Name


class Item(Line):
    item_id: Identifier
    name: Name
    quantity: Annotated[int, Field(ge=1, le=10_000)]
    price_cents: Cents
    options: dict[str, str] = {}


class Payment(Line):
    payment_id: Identifier
    method: Word
    captured_cents: Cents


class EarlierRefund(Line):
    """A refund made before the order came here; the gateway knows it too."""

    refund_id: Identifier
    payment_id: Identifier
    amount_cents: Annotated[int, Field(ge=1, le=MAX_AMOUNT)]
    refunded_at: Instant


class Address(Line):
    line1: Name
    line2: str | None = None
    city: Name
    region: str | None = None
    postal_code: Annotated[str, StringConstraints(min_length=1, max_length=20)]
    country: Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}$")]


class Order(Line):
    order_id: Identifier
    customer_id: Identifier
    status: Word
    placed_at: Instant
    currency: Currency
    items: list[Item]
    payments: list[Payment]
    refunds: list[EarlierRefund] = []
    disputed: bool = False
    shipping_address: Address
    tracking_ids: list[str] = []


def describe(error: ValidationError) -> str:
    """One line: the first field that does not fit and why, without the value."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "body"
    return f"{where}: {first['msg']}"
