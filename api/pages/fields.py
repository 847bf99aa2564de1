"""Arguments and facts as labelled, readable fields. Pure."""

from collections.abc import Callable, Collection, Iterator, Mapping
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
_ASKED = "What is asked for"
# Other at every look, and no change that anybody made.
_ALWAYS_OTHER = frozenset({"facts_at", "age_minutes"})
# A yes to one of these is a reason to look twice.
_ALARMING = frozenset({"disputed", "fraud_flag"})
# What is said of an action right under it, where its tool reads it.
_DECIDING = ("placed_at", "status", "captured_cents", "refunded_cents", "refundable_cents")
# Reasons that a fact speaks against.
_CONTRADICTED = {("not_delivered", "delivered"): "but the order system says delivered"}
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


@dataclass(frozen=True, slots=True)
class Change:
    """One value that is otherwise than it was, and who said so."""

    source: str
    label: Markup
    before: Markup
    after: Markup
    alarming: bool = False


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


def deciding_fields(approval: Approval) -> list[Field]:
    """The reason that was given, the facts that most decisions turn on, and whether there is a reason to look twice, in
    the order to read them."""
    currency = currency_of(approval)
    facts = dict[str, JsonValue]()
    for path, value in _paths(approval.facts):
        facts.setdefault(path[-1], value)
        if path[-1] in _ALARMING and value is True:
            facts[path[-1]] = True
    named = [_field(name, facts[name], currency) for name in _DECIDING if facts.get(name) is not None]
    # A no is said as well: that it was looked at and is not so.
    alarms = [_field(name, facts[name], currency) for name in sorted(_ALARMING) if isinstance(facts.get(name), bool)]
    return [*_reason(approval.arguments.get("reason_code"), facts.get("status")), *named, *alarms]


def _reason(given: JsonValue, status: JsonValue) -> list[Field]:
    if not isinstance(given, str):
        return []
    against = _CONTRADICTED.get((given, str(status)))
    shown = words(given) if against is None else f"{words(given)}, {against}"
    return [Field(Markup("Reason given"), visible(shown), alarming=against is not None)]


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


def changes(before: Approval, arguments: Mapping[str, JsonValue], facts: Mapping[str, JsonValue]) -> list[Change]:
    """What is otherwise than when `before` was asked, of the action and of the facts; without the agent's own words."""
    hidden = _SECRET | before.untrusted.keys()
    was = {name: value for name, value in before.arguments.items() if name not in hidden}
    is_now = {name: value for name, value in arguments.items() if name not in hidden}
    currency = currency_of(before)
    return [
        *_differences(was, is_now, currency, lambda name: _ASKED),
        *_differences(before.facts, facts, currency, lambda name: _SOURCES.get(name, _OTHER)),
    ]


def _differences(
    before: Mapping[str, JsonValue],
    after: Mapping[str, JsonValue],
    currency: str | None,
    source: Callable[[str], str],
) -> Iterator[Change]:
    was, is_now = dict(_paths(before)), dict(_paths(after))
    for path in dict.fromkeys((*was, *is_now)):
        name, old, new = path[-1], was.get(path), is_now.get(path)
        if old != new and name not in _ALWAYS_OTHER:
            shown = (_readable(name, each, currency) for each in (old, new))
            yield Change(source(path[0]), _label(name), *shown, alarming=name in _ALARMING and new is True)


def _leaves(values: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Nested objects flattened, their names left out where the inner ones speak for themselves."""
    return ((path[-1], value) for path, value in _paths(values))


def _paths(values: Mapping[str, JsonValue], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], JsonValue]]:
    """Nested objects flattened: the names from the outside in, and the value."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _paths(value, (*above, name))
        else:
            yield (*above, name), value


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
