"""What a refund is asked with, decided on, and answered with."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from schemas.base import Model
from schemas.money import Currency, Minor
from tools.facts import CustomerFacts, OrderFacts, OrderId, PaymentFacts
from tools.protocol import WriteArguments

SMALLEST_REFUND = 100
LARGEST_REFUND = 50_000

ReasonCode = Literal["damaged", "not_delivered", "late_delivery", "wrong_item", "quality", "billing_error", "goodwill"]


class IssueRefundArguments(WriteArguments):
    order_id: Annotated[OrderId, Field(description="The order, e.g. ord_8f2b91a04c7d")]
    amount_cents: Annotated[int, Field(ge=SMALLEST_REFUND, le=LARGEST_REFUND, description="Minor units: 4999 is 49.99")]
    currency: Annotated[Literal["USD", "CAD", "EUR", "GBP"], Field(description="The currency the order was paid in")]
    reason_code: Annotated[ReasonCode, Field(description="Why the customer gets money back")]
    payment_id: Annotated[
        Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z_-]{1,255}$")] | None,
        Field(description="Only for an order paid with several payments: the one to refund, as lookup_orders names it"),
    ] = None
    note: Annotated[
        Annotated[str, StringConstraints(max_length=280)] | None,
        Field(description="What an approver should know. Shown as your words, never used to decide"),
    ] = None


class IssueRefundFacts(Model):
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


class IssueRefundResult(Model):
    """`status` is `succeeded`, `pending` (on its way) or `requires_action` (the customer must claim it)."""

    refund_id: str
    order_id: str
    amount_cents: Minor
    currency: Currency
    status: str
