"""PayPal's messages and what they mean. Pure.

Sources: https://developer.paypal.com/docs/api/payments/v2/ (refunds, captures, their errors),
https://developer.paypal.com/docs/api/orders/v2/, https://developer.paypal.com/docs/api/customer-disputes/v1/,
https://developer.paypal.com/api/rest/responses/, https://developer.paypal.com/api/rest/reference/currency-codes/
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, cast

from pydantic import Field, JsonValue, SecretStr, StringConstraints

from gateways.border import Border, Instant, RemoteId
from schemas.codes import Code
from schemas.facts import Payment, Refund
from schemas.money import exponent

# PayPal's word for a refund's state -> the word that all gateways of ours share.
STATUSES: Mapping[str, str] = {
    "COMPLETED": "succeeded",
    "PENDING": "pending",
    "FAILED": "failed",
    "CANCELLED": "canceled",
}
# A refund in one of these states gives the money back to the merchant; it is not refunded.
RELEASED = ("FAILED", "CANCELLED")
# A capture in any other state has brought no money (yet), so there is none to refund.
_CAPTURED = ("COMPLETED", "PARTIALLY_REFUNDED", "REFUNDED")

_CAPTURE_PATH = re.compile(r"/v2/payments/captures/([0-9A-Za-z_-]{1,255})")
_METHOD = re.compile(r"[a-z0-9_]{1,40}")
_LAST_DIGITS = re.compile(r"[0-9]{4}")


class Token(Border):
    """An answer of `POST /v1/oauth2/token`: https://developer.paypal.com/api/rest/authentication/"""

    access_token: SecretStr
    token_type: Annotated[str, StringConstraints(pattern=r"^[Bb]earer$")]
    expires_in: Annotated[int, Field(ge=1, le=10**7)]


class Amount(Border):
    """`value` is a decimal number as text: "10.99" USD, "1000" JPY."""

    currency_code: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
    value: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,13}(\.[0-9]{1,3})?$")]


class Link(Border):
    rel: str
    href: str


class WireRefund(Border):
    id: RemoteId
    status: str | None = None
    amount: Amount
    custom_id: str | None = None
    create_time: Instant
    links: list[Link] = Field(default_factory=list[Link])

    @property
    def payment_id(self) -> str | None:
        """The capture that was refunded; only the link upwards names it."""
        return above(self.links)


class _RelatedIds(Border):
    order_id: RemoteId | None = None


class _SupplementaryData(Border):
    related_ids: _RelatedIds | None = None


class WireCapture(Border):
    id: RemoteId
    status: Literal["COMPLETED", "DECLINED", "PARTIALLY_REFUNDED", "PENDING", "REFUNDED", "FAILED"]
    amount: Amount
    supplementary_data: _SupplementaryData | None = None

    @property
    def order_id(self) -> str | None:
        related = None if self.supplementary_data is None else self.supplementary_data.related_ids
        return None if related is None else related.order_id


class _Identified(Border):
    id: RemoteId


class _Payments(Border):
    captures: list[_Identified] = Field(default_factory=list[_Identified])
    refunds: list[WireRefund] = Field(default_factory=list[WireRefund])


class _PurchaseUnit(Border):
    payments: _Payments | None = None


class WireOrder(Border):
    id: RemoteId
    payment_source: dict[str, JsonValue] | None = None
    purchase_units: list[_PurchaseUnit]

    @property
    def capture_ids(self) -> frozenset[str]:
        return frozenset(each.id for payments in self._payments for each in payments.captures)

    @property
    def refunds(self) -> list[WireRefund]:
        return [each for payments in self._payments for each in payments.refunds]

    @property
    def _payments(self) -> list[_Payments]:
        return [unit.payments for unit in self.purchase_units if unit.payments is not None]


class _Dispute(Border):
    dispute_id: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z-]{1,255}$")]


class WireDisputes(Border):
    """A page of disputes. `links` are always there, and tell it from any other object."""

    items: list[_Dispute] = Field(default_factory=list[_Dispute])
    links: list[Link]


class _Detail(Border):
    issue: str | None = None


class WireError(Border):
    """PayPal's error (`name`, `details`), or OAuth's (`error`: RFC 6750)."""

    name: str | None = None
    details: list[_Detail] = Field(default_factory=list[_Detail])
    error: str | None = None


# (HTTP status, issue or name of the error) -> what became of a refund request. A code means that PayPal documents the
# request as not executed; None means unknown, as does whatever is not listed. CAPTURE_FULLY_REFUNDED may speak of a
# refund of ours whose answer was lost, 409 says that an earlier request is still being executed, and of 422 only the
# issues count, since new ones can mean anything.
OUTCOMES: Mapping[tuple[int, str], Code | None] = {
    (400, "INVALID_REQUEST"): Code.REMOTE_REFUSED,
    (401, "AUTHENTICATION_FAILURE"): Code.AUTH_FAILED,
    (401, "invalid_token"): Code.AUTH_FAILED,
    (403, "NOT_AUTHORIZED"): Code.REMOTE_FORBIDDEN,
    (404, "RESOURCE_NOT_FOUND"): Code.REMOTE_REFUSED,
    (409, "PREVIOUS_REQUEST_IN_PROGRESS"): None,
    (422, "CANNOT_BE_NEGATIVE"): Code.REMOTE_REFUSED,
    (422, "CANNOT_BE_ZERO_OR_NEGATIVE"): Code.REMOTE_REFUSED,
    (422, "CAPTURE_FULLY_REFUNDED"): None,
    (422, "CURRENCY_MISMATCH"): Code.REMOTE_REFUSED,
    (422, "DECIMALS_NOT_SUPPORTED"): Code.REMOTE_REFUSED,
    (422, "DECIMAL_PRECISION"): Code.REMOTE_REFUSED,
    (422, "DUPLICATE_REQUEST_ID"): None,
    (422, "INVALID_CURRENCY_CODE"): Code.REMOTE_REFUSED,
    (422, "MAX_NUMBER_OF_REFUNDS_EXCEEDED"): Code.REMOTE_REFUSED,
    (422, "PARTIAL_REFUND_NOT_ALLOWED"): Code.REMOTE_REFUSED,
    (422, "PAYEE_ACCOUNT_LOCKED_OR_CLOSED"): Code.REMOTE_REFUSED,
    (422, "PAYEE_ACCOUNT_RESTRICTED"): Code.REMOTE_REFUSED,
    (422, "PAYER_ACCOUNT_LOCKED_OR_CLOSED"): Code.REMOTE_REFUSED,
    (422, "PENDING_CAPTURE"): Code.REMOTE_REFUSED,
    (422, "REFUND_AMOUNT_EXCEEDED"): Code.REMOTE_REFUSED,
    (422, "REFUND_AMOUNT_TOO_LOW"): Code.REMOTE_REFUSED,
    (422, "REFUND_CAPTURE_CURRENCY_MISMATCH"): Code.REMOTE_REFUSED,
    (422, "REFUND_FAILED_INSUFFICIENT_FUNDS"): Code.REMOTE_REFUSED,
    (422, "REFUND_IS_RESTRICTED"): Code.REMOTE_FORBIDDEN,
    (422, "REFUND_NOT_ALLOWED"): Code.REMOTE_REFUSED,
    (422, "REFUND_NOT_PERMITTED_DUE_TO_CHARGEBACK"): Code.REMOTE_REFUSED,
    (422, "REFUND_TIME_LIMIT_EXCEEDED"): Code.REMOTE_REFUSED,
    (422, "TRANSACTION_DISPUTED"): Code.REMOTE_REFUSED,
    (429, "RATE_LIMIT_REACHED"): Code.RATE_LIMITED,
}


def outcome(status: int, error: WireError | None) -> Code | None:
    """The failure that this answer documents, or None: it may have happened.

    Several issues count only when each is listed and all mean the same. Without any that is listed the name decides. An
    answer without an error object may be a middlebox's and says nothing about the refund.
    """
    if error is None:
        return None
    issues = [(status, each.issue) for each in error.details if each.issue is not None]
    if any(issue in OUTCOMES for issue in issues):
        meant = {OUTCOMES.get(issue) for issue in issues}
        return meant.pop() if len(meant) == 1 else None
    for word in (error.name, error.error):
        if word is not None:
            return OUTCOMES.get((status, word))
    return None


# "This currency does not support decimals", where ISO 4217 has two.
_NO_DECIMALS = ("HUF", "TWD")


def decimals(currency: str) -> int:
    """Decimal places of PayPal's amounts in a currency."""
    return 0 if currency in _NO_DECIMALS else exponent(currency)


def to_wire(amount: int, currency: str) -> str | None:
    """ISO minor units to PayPal's decimal text; None when PayPal cannot express the amount."""
    places = decimals(currency)
    units, rest = divmod(amount, 10 ** (exponent(currency) - places))
    if rest:
        return None
    whole, part = divmod(units, 10**places)
    return f"{whole}.{part:0{places}d}" if places else str(whole)


def from_wire(amount: Amount) -> int | None:
    """PayPal's decimal text to ISO minor units; None when it is more exact than the currency's smallest unit."""
    whole, _, part = amount.value.partition(".")
    places = exponent(amount.currency_code)
    if part[places:].strip("0"):
        return None
    return int(whole) * 10**places + int(part[:places].ljust(places, "0") or "0")


def above(links: Sequence[Link]) -> str | None:
    """The capture that the link upwards names, if there is exactly one such link."""
    hrefs = [each.href for each in links if each.rel == "up"]
    if len(hrefs) != 1:
        return None
    found = re.search(rf"{_CAPTURE_PATH.pattern}\Z", hrefs[0])
    return None if found is None else found[1]


def refund(wire: WireRefund, payment_id: str) -> Refund | None:
    """None when its amount cannot be understood."""
    amount = from_wire(wire.amount)
    if amount is None:
        return None
    return Refund(
        refund_id=wire.id,
        payment_id=payment_id,
        amount_cents=amount,
        currency=wire.amount.currency_code,
        status=STATUSES.get(wire.status or "", "unknown"),
        created_at=wire.create_time,
        operation_id=wire.custom_id,
    )


def payment(capture: WireCapture, order: WireOrder, refunds: Sequence[Refund], *, disputed: bool) -> Payment | None:
    """The payment as it stands; None when its amounts cannot be understood. What is left is never over-stated."""
    captured = from_wire(capture.amount)
    if captured is None or any(each.currency != capture.amount.currency_code for each in refunds):
        return None
    refunded = sum(each.amount_cents for each in refunds if each.stands)
    if capture.status == "REFUNDED":
        refunded = max(refunded, captured)
    method, last4 = source(order.payment_source)
    return Payment(
        payment_id=capture.id,
        currency=capture.amount.currency_code,
        captured_cents=captured if capture.status in _CAPTURED else 0,
        refunded_cents=refunded,
        disputed=disputed,
        method=method,
        last4=last4,
    )


def source(payment_source: Mapping[str, JsonValue] | None) -> tuple[str, str | None]:
    """How it was paid and a card's last four digits: `{"card": {"last_digits": "1111"}}`.

    Wallets name the card in themselves: `{"apple_pay": {"card": {…}}}`.
    """
    names = list(payment_source or {})
    if payment_source is None or len(names) != 1 or _METHOD.fullmatch(names[0]) is None:
        return "payment method", None
    details = payment_source[names[0]]
    card = details.get("card", details) if isinstance(details, dict) else None
    digits = cast("dict[str, JsonValue]", card).get("last_digits") if isinstance(card, dict) else None
    last4 = digits if isinstance(digits, str) and _LAST_DIGITS.fullmatch(digits) else None
    return names[0], last4
