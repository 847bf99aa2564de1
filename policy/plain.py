"""Conditions that only compare, answered without CEL, where that takes most of a decision's time. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from policy.conditions import Condition, ConditionError, Reads, Together
from policy.formulas import All, AtMost, Flag, Formula, Is, Some
from policy.values import Path, look_up

# Whole numbers of CEL have 64 bits, and its text is of Unicode scalar values: a number that comes near the former and a
# text that may not be the latter are left to it.
_GREATEST = 2**48
_Test = Callable[[list[object]], bool]


class Whens:
    """The conditions of one tool, each with what it says as a formula."""

    def __init__(self, conditions: Sequence[Condition], formulas: Sequence[Formula]) -> None:
        self._reads, self._all = Reads(conditions), Together(conditions)
        names = _Names()
        tests = [_test(each, names) for each in formulas]
        self._tests = [(at, each) for at, each in enumerate(tests) if each is not None]
        self._others = [at for at, each in enumerate(tests) if each is None]
        rest = [conditions[at] for at in self._others]
        self._rest = (Reads(rest), Together(rest)) if rest else None
        self._count = len(conditions)
        self._values = names.values()

    def answers(self, values: Mapping[str, object]) -> list[bool | None]:
        """Whether each condition is true of values, by the first word of their names; None where it has no answer."""
        known = self._values(values)
        try:
            if known is None:
                return self._all.answers(self._reads.context(values))
            found: list[bool | None] = [None] * self._count
            for at, test in self._tests:
                found[at] = test(known)
            if self._rest is not None:
                reads, together = self._rest
                for at, answer in zip(self._others, together.answers(reads.context(values)), strict=True):
                    found[at] = answer
            return found
        except ConditionError:
            return [None] * self._count


class _Names:
    """The names that are read, each with its place in a list of values and the type that a value has to have."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, type], int] = {}

    def place(self, name: str, kind: type) -> int:
        return self._places.setdefault((name, kind), len(self._places))

    def values(self) -> Callable[[Mapping[str, object]], list[object] | None]:
        """From all values to the list; None where one is not there or of another type: CEL says what comes of that."""
        below: dict[Path, list[tuple[int, str, type]]] = {}
        for (name, kind), place in self._places.items():
            *above, last = name.split(".")
            below.setdefault(tuple(above), []).append((place, last, kind))
        groups, blank = list(below.items()), [None] * len(self._places)

        def read(values: Mapping[str, object]) -> list[object] | None:
            found: list[object] = [*blank]
            for above, names in groups:
                within = look_up(values, above)
                if not isinstance(within, dict):
                    return None
                of = cast("dict[str, object]", within)
                for place, last, kind in names:
                    value = of.get(last)
                    if type(value) is not kind:
                        return None
                    if kind is int and not -_GREATEST <= cast(int, value) <= _GREATEST:
                        return None
                    if kind is str and not cast(str, value).isascii():
                        return None
                    found[place] = value
            return found

        return read


def _test(formula: Formula, names: _Names) -> _Test | None:
    """None for what is more than comparisons."""
    match formula:
        case AtMost(((name, 1),), most):
            at = names.place(name, int)
            return lambda known: cast(int, known[at]) <= most
        case AtMost(((name, -1),), most):
            at, least = names.place(name, int), -most
            return lambda known: cast(int, known[at]) >= least
        case AtMost(((one, factor), (two, other)), most):
            at, also = names.place(one, int), names.place(two, int)
            return lambda known: cast(int, known[at]) * factor + cast(int, known[also]) * other <= most
        case AtMost(terms, most):
            places = [(names.place(name, int), factor) for name, factor in terms]
            return lambda known: sum(cast(int, known[at]) * factor for at, factor in places) <= most
        case Is(name, text, holds):
            at = names.place(name, str)
            return lambda known: (known[at] == text) is holds
        case Flag(key, holds, opaque):
            if opaque or not key.replace(".", "").isidentifier():
                return None
            at = names.place(key, bool)
            return lambda known: known[at] is holds
        case All(parts) | Some(parts):
            tests = [_test(each, names) for each in parts]
            known_all = [each for each in tests if each is not None]
            if len(known_all) < len(tests):
                return None
            every = isinstance(formula, All)
            return _every(known_all) if every else _any(known_all)


def _every(tests: Sequence[_Test]) -> _Test:
    if len(tests) == 2:
        one, two = tests
        return lambda known: one(known) and two(known)
    return lambda known: all(each(known) for each in tests)


def _any(tests: Sequence[_Test]) -> _Test:
    if len(tests) == 2:
        one, two = tests
        return lambda known: one(known) or two(known)
    return lambda known: any(each(known) for each in tests)
