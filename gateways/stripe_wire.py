"""Stripe's messages and what they mean. Pure.

Sources: https://docs.stripe.com/api/refunds/object, https://docs.stripe.com/api/charges/object,
https://docs.stripe.com/api/payment_intents/object, https://docs.stripe.com/api/errors,
https://docs.stripe.com/error-codes, https://docs.stripe.com/error-low-level, https://docs.stripe.com/currencies
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gateways.border import Amount, Border, RemoteId
from schemas.codes import Code
from schemas.facts import Payment, Refund
from schemas.money import exponent

OPERATION = "counterseal_operation"
REASON = "counterseal_reason"

# A refund in one of these states gives the money back to the merchant; it is not refunded.
RELEASED = ("failed", "canceled")
HOLDING = ("succeeded", "pending", "requires_action")

Timestamp = Annotated[int, Field(ge=0, le=2**33)]
LowerCurrency = Annotated[str, StringConstraints(pattern=r"^[a-z]{3}$")]


class Card(Border):
    last4: Annotated[str, StringConstraints(pattern=r"^[0-9]{4}$")] | None = None


class PaymentMethodDetails(Border):
    type: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,40}$")]
    card: Card | None = None


class WireCharge(Border):
    """`amount_refunded` leaves out refunds that failed or were canceled."""

    id: RemoteId
    object: Literal["charge"]
    amount_captured: Amount
    amount_refunded: Amount
    currency: LowerCurrency
    disputed: bool
    payment_method_details: PaymentMethodDetails | None = None


class WirePaymentIntent(Border):
    """`latest_charge` is the one that succeeded, if any did; the earlier ones failed."""

    id: RemoteId
    object: Literal["payment_intent"]
    latest_charge: RemoteId | None = None


class WireRefund(Border):
    id: RemoteId
    object: Literal["refund"]
    amount: Amount
    currency: LowerCurrency
    status: str | None
    created: Timestamp
    charge: RemoteId | None = None
    payment_intent: RemoteId | None = None
    metadata: dict[str, str] | None = None

    @property
    def operation_id(self) -> str | None:
        return (self.metadata or {}).get(OPERATION)


class WireRefundPage(Border):
    object: Literal["list"]
    has_more: bool
    data: list[WireRefund]


class _ErrorDetails(Border):
    type: str
    code: str | None = None


class WireError(Border):
    error: _ErrorDetails


# (HTTP status, error code or error type) -> what became of a refund request. A code means that Stripe documents the
# request as not executed; None means unknown, as does whatever is not listed. 5xx is "indeterminate" in Stripe's words,
# 409 says that an earlier request with our key is still being executed, and `charge_already_refunded` may speak of a
# refund of ours whose answer was lost.
OUTCOMES: Mapping[tuple[int, str], Code | None] = {
    (400, "invalid_request_error"): Code.REMOTE_REFUSED,
    (400, "charge_already_refunded"): None,
    (400, "idempotency_error"): None,
    (401, "invalid_request_error"): Code.AUTH_FAILED,
    (401, "authentication_error"): Code.AUTH_FAILED,
    (402, "invalid_request_error"): Code.REMOTE_REFUSED,
    (402, "card_error"): Code.REMOTE_REFUSED,
    (403, "invalid_request_error"): Code.REMOTE_FORBIDDEN,
    (403, "permission_error"): Code.REMOTE_FORBIDDEN,
    (404, "invalid_request_error"): Code.REMOTE_REFUSED,
    (409, "idempotency_key_in_use"): None,
    (429, "invalid_request_error"): Code.RATE_LIMITED,
    (429, "rate_limit_error"): Code.RATE_LIMITED,
}


def outcome(status: int, error: WireError | None) -> Code | None:
    """The failure that this answer documents, or None: it may have happened. The error's code is looked up first.

    An answer without Stripe's error object may be a middlebox's and says nothing about the refund.
    """
    if error is None:
        return None
    for word in (error.error.code, error.error.type):
        if word is not None and (status, word) in OUTCOMES:
            return OUTCOMES[status, word]
    return None


# Where Stripe's minor units are not ISO 4217's.
_EXPONENTS = {"ISK": 2, "UGX": 2, "MGA": 0}


def to_wire(amount: int, currency: str) -> int | None:
    """ISO minor units to Stripe's; None when Stripe cannot express the amount."""
    ours, theirs = exponent(currency), _EXPONENTS.get(currency, exponent(currency))
    if theirs >= ours:
        return amount * 10 ** (theirs - ours)
    whole, rest = divmod(amount, 10 ** (ours - theirs))
    return None if rest else whole


def from_wire(amount: int, currency: str, *, up: bool = False) -> int:
    """Stripe's minor units to ISO's, rounded down unless `up`."""
    ours, theirs = exponent(currency), _EXPONENTS.get(currency, exponent(currency))
    if ours >= theirs:
        return amount * 10 ** (ours - theirs)
    divisor = 10 ** (theirs - ours)
    return -(-amount // divisor) if up else amount // divisor


def payment(charge: WireCharge, payment_id: str) -> Payment:
    """What is left to refund is never rounded in the customer's favour."""
    currency = charge.currency.upper()
    details = charge.payment_method_details
    return Payment(
        payment_id=payment_id,
        currency=currency,
        captured_cents=from_wire(charge.amount_captured, currency),
        refunded_cents=from_wire(charge.amount_refunded, currency, up=True),
        disputed=charge.disputed,
        method="payment method" if details is None else details.type,
        last4=None if details is None or details.card is None else details.card.last4,
    )


def refund(wire: WireRefund, payment_id: str) -> Refund:
    currency = wire.currency.upper()
    return Refund(
        refund_id=wire.id,
        payment_id=payment_id,
        amount_cents=from_wire(wire.amount, currency),
        currency=currency,
        status=wire.status if wire.status in (*HOLDING, *RELEASED) else "unknown",
        created_at=datetime.fromtimestamp(wire.created, UTC),
        operation_id=wire.operation_id,
    )
