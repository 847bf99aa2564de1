"""What a condition says, as far as it can be reasoned about: comparisons of whole numbers, of texts with fixed ones,
and flags, joined by and, or and not. Whatever else it says is one flag of its own, true or false, nobody knows when.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from policy.conditions import TOKEN

Terms = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class AtMost:
    """The sum of names, each times its factor, is at most this. Whole numbers alone."""

    terms: Terms
    most: int


@dataclass(frozen=True, slots=True)
class Is:
    """A name holds this text; or does not."""

    name: str
    text: str
    holds: bool = True


@dataclass(frozen=True, slots=True)
class Flag:
    """A name is true, or, in place of a name, so is a piece of CEL that cannot be reasoned about; or is not."""

    key: str
    holds: bool = True
    opaque: bool = False


@dataclass(frozen=True, slots=True)
class All:
    """Each of them; true without any."""

    parts: tuple["Formula", ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one of them; false without any."""

    parts: tuple["Formula", ...]


Literal = AtMost | Is | Flag
Formula = Literal | All | Some
TRUE, FALSE = All(()), Some(())


def negated(formula: Formula) -> Formula:
    match formula:
        case AtMost(terms, most):
            return AtMost(tuple((name, -factor) for name, factor in terms), -most - 1)
        case Is(name, text, holds):
            return Is(name, text, not holds)
        case Flag(key, holds, opaque):
            return Flag(key, not holds, opaque)
        case All(parts):
            return Some(tuple(negated(each) for each in parts))
        case Some(parts):
            return All(tuple(negated(each) for each in parts))


def is_opaque(formula: Formula) -> bool:
    """Whether some of it cannot be reasoned about, and may also have no answer at all."""
    if isinstance(formula, All | Some):
        return any(is_opaque(each) for each in formula.parts)
    return isinstance(formula, Flag) and formula.opaque


def read_formula(source: str, kinds: Mapping[str, str], numbers: Mapping[str, int]) -> Formula:
    """What a condition that compiles says. `kinds` are those of its names, `numbers` the names with a fixed value."""
    tokens = [_Token(str(each.lastgroup), each.group(), *each.span()) for each in TOKEN.finditer(source)]
    reader = _Reader(source, [each for each in tokens if each.kind != "blank"], kinds, numbers)
    try:
        value = reader.expression()
    except IndexError:
        value = None
    # What was not read to its end was not understood.
    return Flag(source, opaque=True) if value is None or not reader.is_done else _as_formula(value)


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


class _Sum(NamedTuple):
    """A sum of names times factors, and a number."""

    factors: Mapping[str, int]
    number: int


class _Text(NamedTuple):
    text: str


class _Name(NamedTuple):
    name: str
    kind: str


class _List(NamedTuple):
    items: list["_Value"]


class _Other(NamedTuple):
    """A piece of CEL that nothing is known of but that it is the same wherever it is written alike."""

    source: str


_Value = _Sum | _Text | _Name | _List | _Other | AtMost | Is | Flag | All | Some
_RELATIONS = ("==", "!=", "<=", ">=", "<", ">", "in")
_PLAIN_TEXT = re.compile(r"""(["'])((?!\1)[^\\\n])*\1""")


class _Reader:
    """Recursive descent over the grammar of CEL (https://github.com/google/cel-spec, doc/langdef.md)."""

    def __init__(self, source: str, tokens: list[_Token], kinds: Mapping[str, str], numbers: Mapping[str, int]) -> None:
        self._source = source
        self._tokens = tokens
        self._kinds = kinds
        self._numbers = numbers
        self._at = 0

    @property
    def is_done(self) -> bool:
        return self._at == len(self._tokens)

    def expression(self) -> _Value:
        start = self._at
        condition = self._joined("||", lambda: self._joined("&&", self._relation, All), Some)
        if not self._takes("?"):
            return condition
        self.expression()
        self._takes(":")
        self.expression()
        return self._other(start)

    def _joined(self, operator: str, part: Callable[[], _Value], join: type[All] | type[Some]) -> _Value:
        parts = [part()]
        while self._takes(operator):
            parts.append(part())
        return parts[0] if len(parts) == 1 else join(tuple(_as_formula(each) for each in parts))

    def _relation(self) -> _Value:
        start = self._at
        left = self._sum()
        while (operator := next((each for each in _RELATIONS if self._takes(each)), None)) is not None:
            right = self._sum()
            left = _related(operator, left, right) or self._other(start)
        return left

    def _sum(self) -> _Value:
        start = self._at
        left = self._product()
        while True:
            sign = 1 if self._takes("+") else -1 if self._takes("-") else 0
            if sign == 0:
                return left
            one, two = _as_sum(left), _as_sum(self._product())
            left = self._other(start) if one is None or two is None else _plus(one, two, sign)

    def _product(self) -> _Value:
        start = self._at
        left = self._unary()
        while (operator := next((each for each in "*/%" if self._takes(each)), None)) is not None:
            one, two = _as_sum(left), _as_sum(self._unary())
            product = None if one is None or two is None or operator != "*" else _times(one, two)
            left = product or self._other(start)
        return left

    def _unary(self) -> _Value:
        start = self._at
        if self._takes("!"):
            return negated(_as_formula(self._unary()))
        if self._takes("-"):
            inner = _as_sum(self._unary())
            return self._other(start) if inner is None else _plus(_Sum({}, 0), inner, -1)
        return self._member()

    def _member(self) -> _Value:
        start = self._at
        value = self._primary()
        first, behind, dotted = self._tokens[start], self._at, True
        while True:
            if self._takes("."):
                self._at += 1
                continue
            end = ")" if self._takes("(") else "]" if self._takes("[") else None
            if end is None:
                break
            self._items(end)
            dotted = False
        if self._at == behind:
            return self._other(start) if value is None else value
        if dotted and first.kind == "name":
            return self._named(start)
        other = self._other(start)
        # Whether there is a value: that always has an answer.
        return Flag(other.source) if first.text == "has" else other

    def _primary(self) -> _Value | None:
        """None for what nothing is known of."""
        start = self._at
        token = self._next()
        if token.text == "(":
            inner = self.expression()
            self._takes(")")
            return inner
        if token.text == "[":
            return _List(self._items("]"))
        if token.text == "{":
            self._items("}")
            return None
        if token.kind == "number" and token.text.isdecimal():
            return _Sum({}, int(token.text))
        if token.kind == "string" and _PLAIN_TEXT.fullmatch(token.text):
            return _Text(token.text[1:-1])
        if token.text in ("true", "false"):
            return TRUE if token.text == "true" else FALSE
        return self._named(start) if token.kind == "name" and token.text != "null" else None

    def _items(self, end: str) -> list[_Value]:
        """What stands between brackets; of a map, keys and values."""
        items: list[_Value] = []
        while not self._takes(end) and not self.is_done:
            items.append(self.expression())
            if not self._takes(","):
                self._takes(":")
        return items

    def _named(self, start: int) -> _Value:
        name = "".join(each.text for each in self._tokens[start : self._at])
        if name in self._numbers:
            return _Sum({}, self._numbers[name])
        kind = self._kinds.get(name, "other")
        return _Sum({name: 1}, 0) if kind == "integer" else _Name(name, kind)

    def _other(self, start: int) -> _Other:
        return _Other(self._source[self._tokens[start].start : self._tokens[self._at - 1].end])

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _takes(self, operator: str) -> bool:
        """Whether this operator comes next, which is then read. Tokens that are no words are single characters."""
        length = 1 if operator == "in" else len(operator)
        if "".join(each.text for each in self._tokens[self._at : self._at + length]) != operator:
            return False
        self._at += length
        return True


def _as_formula(value: _Value) -> Formula:
    match value:
        case AtMost() | Is() | Flag() | All() | Some():
            return value
        case _Name(name, "boolean"):
            return Flag(name)
        case _Other(source):
            return Flag(" ".join(source.split()), opaque=True)
        case _:
            return Flag(repr(value), opaque=True)


def _as_sum(value: _Value) -> _Sum | None:
    return value if isinstance(value, _Sum) else None


def _plus(one: _Sum, two: _Sum, sign: int) -> _Sum:
    names = [*one.factors, *(name for name in two.factors if name not in one.factors)]
    factors = {name: one.factors.get(name, 0) + sign * two.factors.get(name, 0) for name in names}
    return _Sum({name: factor for name, factor in factors.items() if factor}, one.number + sign * two.number)


def _times(one: _Sum, two: _Sum) -> _Sum | None:
    """None for a product of names: that is no sum."""
    if one.factors and two.factors:
        return None
    names, number = (one, two.number) if one.factors or not two.factors else (two, one.number)
    factors = {name: factor * number for name, factor in names.factors.items() if number}
    return _Sum(factors, names.number * number)


def _related(operator: str, left: _Value, right: _Value) -> Formula | None:
    """None where nothing is known of it."""
    if operator == "in":
        if not isinstance(right, _List):
            return None
        found = [_related("==", left, each) for each in right.items]
        known = tuple(each for each in found if each is not None)
        return Some(known) if len(known) == len(found) else None
    if isinstance(left, _Sum) and isinstance(right, _Sum):
        return _compared(operator, left, right)
    if operator not in ("==", "!="):
        return None
    if isinstance(left, _Text):
        left, right = right, left
    if isinstance(left, _Name) and left.kind == "text" and isinstance(right, _Text):
        return Is(left.name, right.text, operator == "==")
    if right in (TRUE, FALSE) and isinstance(left, _Name) and left.kind == "boolean":
        return Flag(left.name, (right == TRUE) == (operator == "=="))
    return None


def _compared(operator: str, left: _Sum, right: _Sum) -> Formula:
    less = _at_most(_plus(left, right, -1), 0)
    more = _at_most(_plus(right, left, -1), 0)
    match operator:
        case "<=":
            return less
        case ">=":
            return more
        case "<":
            return negated(more)
        case ">":
            return negated(less)
        case "==":
            return All((less, more))
        case _:
            return Some((negated(more), negated(less)))


def _at_most(difference: _Sum, most: int) -> Formula:
    """`difference <= most`, in the smallest whole factors, so that what is alike looks alike."""
    room = most - difference.number
    if not difference.factors:
        return TRUE if room >= 0 else FALSE
    divisor = math.gcd(*difference.factors.values())
    terms = tuple(sorted((name, factor // divisor) for name, factor in difference.factors.items()))
    return AtMost(terms, room // divisor)
