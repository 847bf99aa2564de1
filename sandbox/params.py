"""Form parameters of the gateway's endpoints, checked as Stripe checks them. Pure: text in, typed values out."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl

from sandbox.stripe_shapes import StripeError

REASONS = ("duplicate", "fraudulent", "requested_by_customer")
MAX_AMOUNT = 99_999_999
_FOREVER = 2**40
_METADATA = re.compile(r"^metadata\[([^\[\]]+)\]$")


@dataclass(frozen=True)
class RefundParams:
    """What `POST /v1/refunds` was asked: one payment, an amount in minor units (None: all that is left)."""

    payment_id: str
    named: str
    amount: int | None
    reason: str | None
    metadata: dict[str, str]


@dataclass(frozen=True)
class ListParams:
    payment_id: str | None
    named: str | None
    limit: int
    starting_after: str | None
    created_from: int = 0
    """The first second of `created` that is listed."""
    created_before: int = _FOREVER
    """The first one that is not, after that."""


def parse_form(text: str) -> dict[str, str]:
    """A form or query string to a mapping. Raises StripeError for a parameter that comes twice."""
    values: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name in values:
            raise StripeError(400, f"Received duplicate parameter: {name}", code="parameter_invalid", param=name)
        values[name] = value
    return values


def payment_of(values: dict[str, str]) -> str | None:
    """The payment that a request is about, checked or not (used to match a fault to it)."""
    return values.get("charge") or values.get("payment_intent")


def refund_params(values: dict[str, str]) -> RefundParams:
    """Raises StripeError for what Stripe refuses before it executes anything."""
    metadata = _metadata(values)
    _only(values, ("charge", "payment_intent", "amount", "reason"), metadata_allowed=True)
    named, payment_id = _payment(values)
    if named is None or payment_id is None:
        message = "One of the following params should be provided for this request: payment_intent or charge."
        raise StripeError(400, message, code="parameter_missing")
    reason = values.get("reason")
    if reason is not None and reason not in REASONS:
        raise StripeError(
            400, f"Invalid reason: must be one of {', '.join(REASONS[:2])}, or {REASONS[2]}", param="reason"
        )
    amount = _integer(values, "amount", 1, MAX_AMOUNT) if "amount" in values else None
    return RefundParams(payment_id, named, amount, reason, metadata)


def list_params(values: dict[str, str]) -> ListParams:
    """Raises StripeError for what Stripe refuses."""
    _only(values, ("charge", "payment_intent", "limit", "starting_after", *(f"created[{each}]" for each in _BOUNDS)))
    named, payment_id = _payment(values)
    limit = _integer(values, "limit", 1, 100) if "limit" in values else 10
    created = {
        each: _integer(values, f"created[{each}]", 0, _FOREVER) + beyond
        for each, beyond in _BOUNDS.items()
        if f"created[{each}]" in values
    }
    return ListParams(
        payment_id,
        named,
        limit,
        values.get("starting_after"),
        max((created[each] for each in ("gte", "gt") if each in created), default=0),
        min((created[each] for each in ("lt", "lte") if each in created), default=_FOREVER),
    )


# Bounds of `created`, and what they add to the first second that is listed, or that is not any more.
_BOUNDS = {"gte": 0, "gt": 1, "lt": 0, "lte": 1}


def no_params(values: dict[str, str]) -> None:
    _only(values, ())


def _only(values: dict[str, str], allowed: Sequence[str], *, metadata_allowed: bool = False) -> None:
    for name, value in values.items():
        is_metadata = metadata_allowed and _METADATA.match(name) is not None
        if name not in allowed and not is_metadata:
            raise StripeError(400, f"Received unknown parameter: {name}", code="parameter_unknown", param=name)
        if value == "" and not is_metadata:
            message = (
                f"You passed an empty string for '{name}'. We assume empty values are an attempt to unset a parameter."
            )
            raise StripeError(400, message, code="parameter_invalid_empty", param=name)


def _payment(values: dict[str, str]) -> tuple[str | None, str | None]:
    given = [name for name in ("charge", "payment_intent") if name in values]
    if len(given) == 2:
        message = "You may only specify one of these parameters: charge, payment_intent."
        raise StripeError(400, message, code="parameters_exclusive", param="charge")
    return (given[0], values[given[0]]) if given else (None, None)


def _metadata(values: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in values.items():
        match = _METADATA.match(name)
        if match is None:
            continue
        if len(match[1]) > 40 or len(value) > 500:
            message = "Metadata keys can have up to 40 characters and values up to 500."
            raise StripeError(400, message, param="metadata")
        if value:
            found[match[1]] = value
    if len(found) > 50:
        raise StripeError(400, "Metadata can have up to 50 keys.", param="metadata")
    return found


def _integer(values: dict[str, str], name: str, low: int, high: int) -> int:
    text = values[name]
    if re.fullmatch(r"-?[0-9]{1,18}", text) is None:
        raise StripeError(400, f"Invalid integer: {text}", code="parameter_invalid_integer", param=name)
    if int(text) < low:
        message = f"This value must be greater than or equal to {low}."
        raise StripeError(400, message, code="parameter_invalid_integer", param=name)
    if int(text) > high:
        code = "amount_too_large" if name == "amount" else "parameter_invalid_integer"
        raise StripeError(400, f"This value must be less than or equal to {high}.", code=code, param=name)
    return int(text)
