"""Stripe's JSON shapes as pure functions: objects (https://docs.stripe.com/api/refunds/object, charges) and errors.

Amounts are integer minor units, currencies lower case, times whole seconds since the epoch, as Stripe has them.
"""

import json
import secrets
from dataclasses import dataclass, field
from typing import Any

Shape = dict[str, Any]

# A refund in one of these states has given the money back; in any other it holds it.
RELEASED = ("failed", "canceled")
_NO_MINOR_UNITS = {
    "bif",
    "clp",
    "djf",
    "gnf",
    "jpy",
    "kmf",
    "krw",
    "mga",
    "pyg",
    "rwf",
    "vnd",
    "vuv",
    "xaf",
    "xof",
    "xpf",
}


@dataclass(frozen=True)
class Answer:
    """An HTTP answer: status, JSON bytes and the headers that are special to it."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict[str, str])


class StripeError(Exception):
    """A refusal in Stripe's form (https://docs.stripe.com/api/errors), on its way to the caller."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        type_: str = "invalid_request_error",
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        error: Shape = {"message": message, "type": type_}
        if code is not None:
            error |= {"code": code, "doc_url": f"https://docs.stripe.com/error-codes#{code.replace('_', '-')}"}
        if param is not None:
            error["param"] = param
        self.answer = json_answer({"error": error}, status, headers)


def json_answer(shape: Any, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    return Answer(status, json.dumps(shape, separators=(",", ":")).encode(), headers or {})


def new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(12)}"


@dataclass(frozen=True)
class Payment:
    """A captured payment. One id serves as charge and as payment intent; `created` is in seconds."""

    payment_id: str
    order_id: str
    method: str
    amount: int
    currency: str
    created: int
    disputed: bool


def charge(payment: Payment, refunded: int) -> Shape:
    details: Shape = {"type": payment.method, payment.method: {}}
    if payment.method == "card":
        details["card"] = {"brand": "visa", "last4": "4242", "exp_month": 12, "exp_year": 2034, "funding": "credit"}
    return {
        "id": payment.payment_id,
        "object": "charge",
        "amount": payment.amount,
        "amount_captured": payment.amount,
        "amount_refunded": refunded,
        "balance_transaction": f"txn_{payment.payment_id}",
        "captured": payment.amount > 0,
        "created": payment.created,
        "currency": payment.currency.lower(),
        "disputed": payment.disputed,
        "livemode": False,
        "metadata": {"order_id": payment.order_id},
        "paid": True,
        "payment_intent": payment.payment_id,
        "payment_method_details": details,
        "refunded": 0 < payment.amount <= refunded,
        "status": "succeeded",
    }


def payment_intent(payment: Payment) -> Shape:
    return {
        "id": payment.payment_id,
        "object": "payment_intent",
        "amount": payment.amount,
        "amount_capturable": 0,
        "amount_received": payment.amount,
        "created": payment.created,
        "currency": payment.currency.lower(),
        "latest_charge": payment.payment_id,
        "livemode": False,
        "metadata": {"order_id": payment.order_id},
        "payment_method_types": [payment.method],
        "status": "succeeded",
    }


def refund(
    refund_id: str,
    payment_id: str,
    amount: int,
    currency: str,
    status: str,
    reason: str | None,
    metadata: dict[str, str],
    created: int,
) -> Shape:
    shape: Shape = {
        "id": refund_id,
        "object": "refund",
        "amount": amount,
        "balance_transaction": f"txn_{refund_id}",
        "charge": payment_id,
        "created": created,
        "currency": currency.lower(),
        "metadata": metadata,
        "payment_intent": payment_id,
        "reason": reason,
        "receipt_number": None,
        "source_transfer_reversal": None,
        "status": status,
        "transfer_reversal": None,
    }
    if status == "failed":
        shape |= {"failure_reason": "lost_or_stolen_card", "failure_balance_transaction": f"txn_failed_{refund_id}"}
    if status == "pending":
        shape["pending_reason"] = "processing"
    return shape


def page(data: list[Shape], has_more: bool) -> Shape:
    return {"object": "list", "url": "/v1/refunds", "has_more": has_more, "data": data}


def money(amount: int, currency: str) -> str:
    """An amount for people, as Stripe's messages have it: `$12.34`, `12.34 eur`."""
    if currency.lower() in _NO_MINOR_UNITS:
        return f"{amount} {currency.lower()}"
    text = f"{amount // 100}.{amount % 100:02d}"
    return f"${text}" if currency.lower() == "usd" else f"{text} {currency.lower()}"


def unauthorized() -> StripeError:
    return StripeError(
        401,
        "Invalid API Key provided.",
        type_="invalid_request_error",
        headers={"WWW-Authenticate": 'Bearer realm="Stripe"'},
    )


def missing(what: str, id_: str, param: str) -> StripeError:
    return StripeError(404, f"No such {what}: '{id_}'", code="resource_missing", param=param)


def already_refunded(payment_id: str) -> StripeError:
    return StripeError(400, f"Charge {payment_id} has already been refunded.", code="charge_already_refunded")


def key_in_use(key: str) -> StripeError:
    return StripeError(
        409,
        "There is currently another in-progress request using this Idempotent Key (that probably means you submitted"
        f" twice, and the other request is still going through): {key}. Please try again later.",
        code="idempotency_key_in_use",
        type_="idempotency_error",
        headers={"Stripe-Should-Retry": "true"},
    )


def key_mismatch(key: str) -> StripeError:
    return StripeError(
        400,
        "Keys for idempotent requests can only be used with the same parameters they were first used with."
        f" Try using a key other than '{key}' if you meant to execute a different request.",
        type_="idempotency_error",
        headers={"Stripe-Should-Retry": "false"},
    )


def too_many_requests(code: str, retry_after: int) -> StripeError:
    """429 of the rate limiter (`rate_limit`) or of two requests for one object (`lock_timeout`), not executed."""
    headers = {"Retry-After": str(retry_after)}
    if code == "lock_timeout":
        message = "This object cannot be accessed right now because another API request is currently accessing it."
        return StripeError(429, message, code=code, headers=headers | {"Stripe-Should-Retry": "true"})
    headers["Stripe-Rate-Limited-Reason"] = "global-rate"
    return StripeError(429, "Request rate limit exceeded.", code=code, headers=headers)


def server_error(status: int) -> StripeError:
    return StripeError(status, "An unknown error occurred", type_="api_error")
