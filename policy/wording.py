"""The `because` of a rule: our words with a few named values, never free text from outside."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from policy.values import Path, look_up
from schemas.money import Money

_FIELD = re.compile(r"\{([a-z0-9_]+(?:\.[a-z0-9_]+)*)(:money)?\}")
# Ids, states, codes and times. Whatever does not look like one is not shown, so that no sentence written outside can
# reach an approver or an agent as if it were ours.
_PLAIN = re.compile(r"[A-Za-z0-9_.:+-]{1,64}")
NOT_KNOWN = "(not known)"


@dataclass(frozen=True, slots=True)
class Field:
    """One `{name}` or `{name:money}` of a text; `money` writes minor units in the currency of the arguments."""

    path: Path
    money: bool


@dataclass(frozen=True, slots=True)
class Wording:
    """A text and its fields, in order: `literals[0] fields[0] literals[1] …`."""

    source: str
    literals: tuple[str, ...]
    fields: tuple[Field, ...]

    def render(self, values: Mapping[str, object]) -> str:
        """The text with its values filled in; `(not known)` for what is missing or not plain. Never raises."""
        if not self.fields:
            return self.source
        parts = [self.literals[0]]
        for field, literal in zip(self.fields, self.literals[1:], strict=True):
            value = look_up(values, field.path)
            parts.append(_as_money(value, values) if field.money else plain(value))
            parts.append(literal)
        return "".join(parts)


def parse_wording(source: str) -> Wording:
    """Raises ValueError for braces that are not a field."""
    pieces = _FIELD.split(source)
    literals = tuple(pieces[::3])
    if any("{" in literal or "}" in literal for literal in literals):
        raise ValueError("braces hold a name, e.g. {facts.order.status}, or an amount, e.g. {args.amount_cents:money}")
    fields = tuple(
        Field(tuple(name.split(".")), money is not None) for name, money in zip(pieces[1::3], pieces[2::3], strict=True)
    )
    return Wording(source, literals, fields)


def plain(value: object) -> str:
    """A scalar as it may stand in one of our sentences."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**18 else NOT_KNOWN
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return NOT_KNOWN


def _as_money(value: object, values: Mapping[str, object]) -> str:
    currency = look_up(values, ("args", "currency"))
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**18:
        return NOT_KNOWN
    if not isinstance(currency, str) or not re.fullmatch(r"[A-Z]{3}", currency):
        return NOT_KNOWN
    return str(Money(amount=value, currency=currency))
