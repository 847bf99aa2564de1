"""What a refund is asked with, decided on, and answered with."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from tools.facts import OrderId, PaymentId
from tools.protocol import WriteArguments
from tools.refunds import SMALLEST_REFUND, ReasonCode

LARGEST_REFUND = 50_000


class IssueRefundArguments(WriteArguments):
    order_id: Annotated[OrderId, Field(description="The order, e.g. ord_8f2b91a04c7d")]
    amount_cents: Annotated[int, Field(ge=SMALLEST_REFUND, le=LARGEST_REFUND, description="Minor units: 4999 is 49.99")]
    currency: Annotated[Literal["USD", "CAD", "EUR", "GBP"], Field(description="The currency the order was paid in")]
    reason_code: Annotated[ReasonCode, Field(description="Why the customer gets money back")]
    payment_id: Annotated[
        PaymentId | None,
        Field(description="Only for an order paid with several payments: the one to refund, as lookup_orders names it"),
    ] = None
    note: Annotated[
        Annotated[str, StringConstraints(max_length=280)] | None,
        Field(description="What an approver should know. Shown as your words, never used to decide"),
    ] = None
