"""PayPal's JSON shapes as pure functions: https://developer.paypal.com/docs/api/payments/v2/, its orders, disputes.

Amounts are decimal texts with the currency's decimals; inside they are integers of the smallest unit.
"""

import json
import re
import secrets
from dataclasses import dataclass
from typing import Any

from sandbox.state import to_iso
from sandbox.stripe_shapes import Answer

Shape = dict[str, Any]

RELEASED = ("FAILED", "CANCELLED")
_NO_DECIMALS = ("HUF", "JPY", "TWD")
_VALUE = re.compile(r"(-?)([0-9]{1,20})(?:\.([0-9]{1,10}))?")
_LETTERS = "ABCDEFGHJKLMNPRSTUVWXY0123456789"


@dataclass(frozen=True)
class Capture:
    capture_id: str
    order_id: str
    method: str
    amount: int
    currency: str
    pending: bool
    disputed: bool
    created_us: int


@dataclass(frozen=True)
class Refund:
    refund_id: str
    capture_id: str
    amount: int
    currency: str
    status: str
    custom_id: str | None
    invoice_id: str | None
    note: str | None
    created_us: int
    updated_us: int


class PayPalError(Exception):
    """A refusal in PayPal's form, on its way to the caller."""

    def __init__(
        self, status: int, name: str, message: str, issue: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(name)
        error: Shape = {"name": name, "message": message, "debug_id": secrets.token_hex(7)}
        if issue is not None:
            error["details"] = [{"issue": issue, "description": issue.replace("_", " ").capitalize() + "."}]
        error["links"] = []
        self.answer = json_answer(error, status, headers)


def json_answer(shape: Any, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    return Answer(status, json.dumps(shape, separators=(",", ":")).encode(), headers or {})


def new_id() -> str:
    """Seventeen letters and digits, as PayPal's own are."""
    return "".join(secrets.choice(_LETTERS) for _ in range(17))


def places(currency: str) -> int:
    return 0 if currency in _NO_DECIMALS else 2


def money(amount: int, currency: str) -> Shape:
    """`{"currency_code": "USD", "value": "10.99"}`"""
    decimals = places(currency)
    whole, part = divmod(amount, 10**decimals)
    return {"currency_code": currency, "value": f"{whole}.{part:0{decimals}d}" if decimals else str(whole)}


def smallest_units(value: str, currency: str) -> int:
    """A decimal text as an integer. Raises PayPalError."""
    match = _VALUE.fullmatch(value)
    if match is None:
        raise invalid("INVALID_PARAMETER_SYNTAX")
    sign, whole, part = match[1], match[2], match[3] or ""
    decimals = places(currency)
    if part and not decimals:
        raise unprocessable("DECIMALS_NOT_SUPPORTED")
    if len(part) > decimals:
        raise unprocessable("DECIMAL_PRECISION")
    amount = int(whole) * 10**decimals + int(part.ljust(decimals, "0") or "0")
    if sign or amount == 0:
        raise unprocessable("CANNOT_BE_ZERO_OR_NEGATIVE")
    return amount


def capture(base: str, found: Capture, refunded: int) -> Shape:
    status = "COMPLETED"
    if found.pending:
        status = "PENDING"
    elif refunded:
        status = "REFUNDED" if refunded >= found.amount else "PARTIALLY_REFUNDED"
    here = f"{base}/v2/payments/captures/{found.capture_id}"
    return {
        "id": found.capture_id,
        "status": status,
        "amount": money(found.amount, found.currency),
        "final_capture": True,
        "seller_protection": {"status": "NOT_ELIGIBLE"},
        "seller_receivable_breakdown": {"gross_amount": money(found.amount, found.currency)},
        "supplementary_data": {"related_ids": {"order_id": found.order_id}},
        "create_time": _time(found.created_us),
        "update_time": _time(found.created_us),
        "links": [
            _link(here, "self"),
            _link(f"{here}/refund", "refund", "POST"),
            _link(f"{base}/v2/checkout/orders/{found.order_id}", "up"),
        ],
    }


def refund(base: str, found: Refund, total: int) -> Shape:
    """The whole representation; `total` is what was refunded of the capture to date."""
    amount = money(found.amount, found.currency)
    shape = {
        **minimal(base, found),
        "amount": amount,
        "seller_payable_breakdown": {
            "gross_amount": amount,
            "paypal_fee": money(0, found.currency),
            "net_amount": amount,
            "total_refunded_amount": money(total, found.currency),
        },
        "create_time": _time(found.created_us),
        "update_time": _time(found.updated_us),
    }
    given = {"custom_id": found.custom_id, "invoice_id": found.invoice_id, "note_to_payer": found.note}
    shape |= {name: value for name, value in given.items() if value is not None}
    if found.status == "PENDING":
        shape["status_details"] = {"reason": "ECHECK"}
    return shape


def minimal(base: str, found: Refund) -> Shape:
    """What a write answers unless `Prefer: return=representation` comes with it."""
    return {
        "id": found.refund_id,
        "status": found.status,
        "links": [
            _link(f"{base}/v2/payments/refunds/{found.refund_id}", "self"),
            _link(f"{base}/v2/payments/captures/{found.capture_id}", "up"),
        ],
    }


def order(base: str, order_id: str, method: str, captures: list[Shape], refunds: list[Shape]) -> Shape:
    details: Shape = {"card": {"name": "Ada Example", "last_digits": "4242", "brand": "VISA", "type": "CREDIT"}}
    source = details if method == "card" else {method: {"email_address": "ada@example.com"}}
    payments: Shape = {"captures": captures}
    if refunds:
        payments["refunds"] = refunds
    return {
        "id": order_id,
        "intent": "CAPTURE",
        "status": "COMPLETED",
        "payment_source": source,
        "purchase_units": [{"reference_id": "default", "payments": payments}],
        "create_time": captures[0]["create_time"],
        "links": [_link(f"{base}/v2/checkout/orders/{order_id}", "self")],
    }


def dispute(base: str, found: Capture) -> Shape:
    """A summary: it does not name its transaction."""
    dispute_id = f"PP-D-{found.capture_id}"
    return {
        "dispute_id": dispute_id,
        "create_time": _time(found.created_us),
        "update_time": _time(found.created_us),
        "reason": "MERCHANDISE_OR_SERVICE_NOT_RECEIVED",
        "status": "UNDER_REVIEW",
        "dispute_state": "UNDER_PAYPAL_REVIEW",
        "dispute_amount": money(found.amount, found.currency),
        "links": [_link(f"{base}/v1/customer/disputes/{dispute_id}", "self")],
    }


def disputes(base: str, items: list[Shape]) -> Shape:
    return {"items": items, "links": [_link(f"{base}/v1/customer/disputes?page_size=10", "self")]}


def unauthenticated() -> PayPalError:
    message = "Authentication failed due to missing authorization header, or invalid authentication credentials."
    return PayPalError(401, "AUTHENTICATION_FAILURE", message)


def invalid_token() -> Answer:
    """OAuth's form of the same (RFC 6750), which PayPal uses for tokens that are no longer good."""
    error = {"error": "invalid_token", "error_description": "Token signature verification failed"}
    return json_answer(error, 401, {"WWW-Authenticate": 'Bearer realm="api-m.paypal.com", error="invalid_token"'})


def invalid(issue: str) -> PayPalError:
    message = "Request is not well-formed, syntactically incorrect, or violates schema."
    return PayPalError(400, "INVALID_REQUEST", message, issue)


def unprocessable(issue: str) -> PayPalError:
    message = "The requested action could not be performed, semantically incorrect, or failed business validation."
    return PayPalError(422, "UNPROCESSABLE_ENTITY", message, issue)


def missing() -> PayPalError:
    return PayPalError(404, "RESOURCE_NOT_FOUND", "The specified resource does not exist.", "INVALID_RESOURCE_ID")


def in_progress() -> PayPalError:
    message = "The server has detected a conflict while processing this request."
    return PayPalError(409, "RESOURCE_CONFLICT", message, "PREVIOUS_REQUEST_IN_PROGRESS")


def too_many_requests(seconds: int) -> PayPalError:
    message = "Too many requests. Blocked due to rate limiting."
    return PayPalError(429, "RATE_LIMIT_REACHED", message, headers={"Retry-After": str(seconds)})


def server_error(status: int) -> PayPalError:
    if status == 503:
        return PayPalError(503, "SERVICE_UNAVAILABLE", "Service Unavailable.")
    return PayPalError(500, "INTERNAL_SERVER_ERROR", "An internal server error has occurred.")


def _link(href: str, rel: str, method: str = "GET") -> Shape:
    return {"href": href, "rel": rel, "method": method}


def _time(us: int) -> str:
    """PayPal's times have whole seconds."""
    return to_iso(us - us % 1_000_000)
