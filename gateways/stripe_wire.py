"""Stripe's messages and what they mean. Pure.

Sources: https://docs.stripe.com/api/refunds/object, https://docs.stripe.com/api/charges/object,
https://docs.stripe.com/api/payment_intents/object, https://docs.stripe.com/api/errors,
https://docs.stripe.com/error-codes, https://docs.stripe.com/error-low-level, https://docs.stripe.com/rate-limits,
https://docs.stripe.com/currencies, https://docs.stripe.com/metadata
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, StringConstraints

from gateways.border import Amount, Border, RemoteId
from schemas.codes import Code
from schemas.facts import Payment, Refund
from schemas.money import exponent

# The version that these shapes are read by, whatever the account's own is.
API_VERSION = "2024-10-28.acacia"

OPERATION = "counterseal_operation"
REASON = "counterseal_reason"
NOTE = "counterseal_note"
# "key names up to 40 characters long and values up to 500 characters long"
LONGEST_VALUE = 500

StripeReason = Literal["duplicate", "fraudulent", "requested_by_customer"]
# Stripe's other two reasons are claims about the payment itself, which none of ours is; `fraudulent` even blocks the
# customer's card. Ours goes along whole, in the metadata.
REASONS: Mapping[str, StripeReason] = {
    "damaged": "requested_by_customer",
    "not_delivered": "requested_by_customer",
    "late_delivery": "requested_by_customer",
    "wrong_item": "requested_by_customer",
    "quality": "requested_by_customer",
    "billing_error": "requested_by_customer",
    "goodwill": "requested_by_customer",
}


def reason(code: str) -> StripeReason:
    """Stripe's reason for one of our codes, also for a code that only another tool has."""
    return REASONS.get(code, "requested_by_customer")


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
    payment_intent: RemoteId | None = None
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


class Row(NamedTuple):
    """What became of a refund request: the failure that Stripe documents, or None if it may have happened; and why."""

    code: Code | None
    why: str


# (HTTP status, error code or error type). The one place that decides. What is not listed is unknown: so every 3xx and
# 5xx, the "indeterminate" results of error-low-level, whether or not they are replayed (`Idempotent-Replayed`).
OUTCOMES: Mapping[tuple[int, str], Row] = {
    (400, "invalid_request_error"): Row(
        Code.REMOTE_REFUSED,
        "api/errors: the request was unacceptable; error-low-level: content errors are to be corrected and sent anew",
    ),
    (400, "charge_already_refunded"): Row(
        None,
        "error-codes: nothing is left; what took the rest may be a refund of ours whose answer was lost",
    ),
    (400, "idempotency_error"): Row(
        None,
        "api/idempotent_requests: the key came with other parameters, and may have been executed with them",
    ),
    (401, "invalid_request_error"): Row(Code.AUTH_FAILED, "api/errors: no valid API key provided"),
    (401, "authentication_error"): Row(Code.AUTH_FAILED, "api/errors: no valid API key provided, by its older type"),
    (402, "invalid_request_error"): Row(
        Code.REMOTE_REFUSED, "api/errors: the parameters were valid but the request failed"
    ),
    (402, "card_error"): Row(Code.REMOTE_REFUSED, "api/errors: the card was declined"),
    (403, "invalid_request_error"): Row(
        Code.REMOTE_FORBIDDEN, "api/errors: the API key doesn't have permissions to perform the request"
    ),
    (403, "permission_error"): Row(
        Code.REMOTE_FORBIDDEN, "api/errors: the API key doesn't have permissions, by the error's older type"
    ),
    (404, "invalid_request_error"): Row(Code.REMOTE_REFUSED, "api/errors: the payment doesn't exist"),
    (409, "idempotency_key_in_use"): Row(None, "error-codes: an earlier request with our key is still being executed"),
    (429, "lock_timeout"): Row(
        None, "error-codes: it gave up waiting for the payment while it ran, which is not said to leave nothing behind"
    ),
    (429, "invalid_request_error"): Row(
        Code.RATE_LIMITED, "error-low-level: the rate limiter runs before the API's idempotency layer"
    ),
    (429, "rate_limit_error"): Row(
        Code.RATE_LIMITED, "error-low-level: the rate limiter runs before the idempotency layer; the error's older type"
    ),
}


def outcome(status: int, error: WireError | None, headers: Mapping[str, str]) -> Code | None:
    """The failure that this answer documents, or None: it may have happened. The error's code is looked up first.

    An answer without Stripe's error object may be a middlebox's and says nothing about the refund. `headers` has names
    in lower case. With `Stripe-Should-Retry: true` Stripe asks for the same request again, which then may be executed,
    or was (https://docs.stripe.com/error-low-level): so it is never known to have failed. `false` adds no knowledge.
    """
    if error is None or headers.get("stripe-should-retry", "").strip().lower() == "true":
        return None
    for word in (error.error.code, error.error.type):
        if word is not None and (status, word) in OUTCOMES:
            return OUTCOMES[status, word].code
    return None


# Where Stripe's minor units are not ISO 4217's. ISK and UGX have two decimals "to maintain backwards compatibility",
# and both must be 0; MGA has none. HUF and TWD are as in ISO 4217: that they must be whole is said of payouts alone.
_EXPONENTS = {"ISK": 2, "UGX": 2, "MGA": 0}


def to_wire(amount: int, currency: str) -> int | None:
    """ISO minor units to Stripe's; None when Stripe cannot express the amount.

    Of three decimals it requires "the least-significant (last) digit to be 0", in refunds too. Nothing is rounded.
    """
    ours, theirs = exponent(currency), _EXPONENTS.get(currency, exponent(currency))
    if theirs == 3 and amount % 10:
        return None
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
