"""Arguments and facts as labelled, readable fields. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup
from pydantic import JsonValue

from api.pages.text import money, span, time_tag, visible, words
from schemas.decisions import Approval

# What a label would not say by itself; every other name is shown as its words.
_LABELS = {
    "amount_cents": "Amount",
    "order_id": "Order",
    "customer_id": "Customer",
    "payment_id": "Payment",
    "reason_code": "Reason",
    "placed_at": "Placed",
    "age_minutes": "Age when read",
    "fraud_flag": "Customer flagged for fraud",
    "captured_cents": "Paid with this payment",
    "refunded_cents": "Already refunded",
    "refundable_cents": "Still refundable",
    "paid_cents": "Paid for the order",
    "method": "Paid by",
    "last4": "Ends in",
    "version": "Record version",
    "line1": "Address line 1",
    "line2": "Address line 2",
}
# Which system a group of facts was read from.
_SOURCES = {
    "order": "Order system",
    "customer": "Order system",
    "payment": "Payment gateway",
    "paid_cents": "Payment gateway",
    "refundable_cents": "Payment gateway",
}
_OTHER = "Other facts"
# A yes to one of these is a reason to look twice.
_ALARMING = frozenset({"disputed", "fraud_flag"})
# Never shown: whoever knows it can ask for the call again.
_SECRET = frozenset({"idempotency_key"})


@dataclass(frozen=True, slots=True)
class Field:
    """One value. `exact` is `name: value` as it is stored, given where the readable form differs from it."""

    label: Markup
    value: Markup
    exact: str | None = None
    alarming: bool = False


@dataclass(frozen=True, slots=True)
class FactGroup:
    """What one system said."""

    source: str
    fields: tuple[Field, ...]


def currency_of(approval: Approval) -> str | None:
    """The currency that amounts in the arguments and facts are in."""
    order = approval.facts.get("order")
    for holder in (approval.arguments, order):
        if isinstance(holder, dict) and isinstance(currency := holder.get("currency"), str):
            return currency
    return None


def argument_fields(approval: Approval) -> list[Field]:
    """What will be executed, field by field, without the agent's own words: those have their own place."""
    hidden = _SECRET | approval.untrusted.keys()
    shown = {name: value for name, value in approval.arguments.items() if name not in hidden}
    return [_field(name, value, currency_of(approval), exact=True) for name, value in _leaves(shown)]


def sent_fields(target: Mapping[str, JsonValue], untrusted: Collection[str]) -> list[Field]:
    """What was sent to the other system (`Effect.target`), field by field, without the agent's own words."""
    currency = target.get("currency")
    shown = {name: value for name, value in target.items() if name not in untrusted and value is not None}
    paid_in = currency if isinstance(currency, str) else None
    return [_field(name, value, paid_in, exact=True) for name, value in _leaves(shown)]


def fact_groups(approval: Approval) -> list[FactGroup]:
    """The facts by the system they were read from."""
    currency = currency_of(approval)
    grouped: dict[str, list[Field]] = {}
    for name, value in approval.facts.items():
        if name == "facts_at":
            continue
        inner: Mapping[str, JsonValue] = value if isinstance(value, dict) else {name: value}
        fields = [_field(leaf, each, currency) for leaf, each in _leaves(inner)]
        grouped.setdefault(_SOURCES.get(name, _OTHER), []).extend(fields)
    return [FactGroup(source, tuple(fields)) for source, fields in grouped.items()]


def _leaves(values: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Nested objects flattened, their names left out where the inner ones speak for themselves."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value)
        else:
            yield name, value


def _field(name: str, value: JsonValue, currency: str | None, *, exact: bool = False) -> Field:
    readable = _readable(name, value, currency)
    stored = f"{name}: {value}" if exact and isinstance(value, int | str) and str(readable) != str(value) else None
    return Field(_label(name), readable, stored, alarming=name in _ALARMING and value is True)


def _label(name: str) -> Markup:
    return visible(_LABELS.get(name) or words(name.removesuffix("_cents")).capitalize())


def _readable(name: str, value: JsonValue, currency: str | None) -> Markup:
    match value:
        case None:
            return Markup("<span class='none'>not given</span>")
        case bool():
            return visible("Yes" if value else "No")
        case int() if name.endswith("_cents") and currency is not None:
            return visible(money(value, currency))
        case int() if name.endswith("_minutes"):
            return visible(span(timedelta(minutes=value)))
        case str() if name.endswith("_at"):
            return _time(value)
        case str() if name.endswith(("_code", "method", "status")):
            return visible(words(value))
        case list():
            return Markup(", ").join(_readable(name, each, currency) for each in value) or Markup("none")
        case dict():
            pairs = (Markup("{}: {}").format(_label(k), _readable(k, v, currency)) for k, v in value.items())
            return Markup("; ").join(pairs)
        case _:
            return visible(str(value))


def _time(value: str) -> Markup:
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return visible(value)
    return time_tag(at) if at.tzinfo else visible(value)
