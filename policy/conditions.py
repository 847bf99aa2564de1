"""Conditions in the Common Expression Language (https://cel.dev), compiled once.

Handing nested values to the evaluator is by far the greatest cost of a decision, so a condition is compiled with each
dotted name (`facts.order.status`) as one flat variable, and only the names that are read are handed over.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

import cel

from policy.values import ABSENT, Path, look_up

TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*)
    |(?P<string>[rRbB]{0,2}(?:\"{3}(?:.|\n)*?\"{3}|'{3}(?:.|\n)*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<number>[0-9][0-9A-Za-z_]*)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_MACROS = frozenset(("all", "exists", "exists_one", "map", "filter"))
_WORDS = frozenset(("true", "false", "null", "in"))
_NOTHING: Mapping[str, object] = {}
_UNDEFINED = re.compile(r"Undefined variable or function: '([^']*)'")


class ConditionError(Exception):
    """A condition that is not CEL, or that has no answer on the values it was given."""


class Name(NamedTuple):
    """A dotted name that is read: its value, or, inside `has(…)`, whether there is one."""

    path: Path
    presence: bool

    @property
    def variable(self) -> str:
        """Unique: an underscore is doubled and a dot becomes `_1`, which no name can hold after that."""
        flat = "_1".join(step.replace("_", "__") for step in self.path)
        return f"has_2{flat}" if self.presence else flat


class Condition(NamedTuple):
    """A compiled condition and what it reads."""

    source: str
    flat: str
    """The same over flat variables, with what is constant written out."""
    program: cel.Program
    reads: frozenset[Name]
    variables: frozenset[Name]
    """Of what it reads, what has to be handed over."""

    def holds(self, context: cel.Context) -> bool:
        """Raises ConditionError when there is no answer, or the answer is not true or false."""
        try:
            answer = self.program.execute(context)
        except Exception:  # noqa: BLE001 - whatever the evaluator raises, there is no answer
            raise ConditionError from None
        if not isinstance(answer, bool):
            raise ConditionError
        return answer

    def misuse(self, context: cel.Context) -> str | None:
        """What is wrong with the condition itself, tried on values of the right kinds; None where nothing is seen.

        What only these values bring about (a division by zero, a text that is no number) is not the condition's fault.
        """
        try:
            answer = self.program.execute(context)
        except TypeError:
            return "mixes values of different types, e.g. text and a number"
        except RuntimeError as error:
            name = _UNDEFINED.match(str(error))
            return f"{name[1]} is not known" if name else None
        except (ArithmeticError, LookupError, ValueError):
            return None
        return None if isinstance(answer, bool) else "does not answer true or false"


class Reads:
    """What all conditions of a tool read, as the variables of one context."""

    def __init__(self, conditions: Iterable[Condition]) -> None:
        names = {name for condition in conditions for name in condition.variables}
        self._below: dict[Path, list[tuple[str, str, bool]]] = {}
        """By the object that it is in: (variable, name there, whether it is about presence)."""
        for name in sorted(names):
            *above, last = name.path
            self._below.setdefault(tuple(above), []).append((name.variable, last, name.presence))

    def context(self, values: Mapping[str, object]) -> cel.Context:
        """A name without a value is left out, so that reading it is an error.

        Raises ConditionError for values that CEL does not have.
        """
        variables: dict[str, object] = {}
        for above, names in self._below.items():
            found = look_up(values, above)
            # Nearly all are dicts, and asking for what is more costs ten times as much.
            is_object = type(found) is dict or isinstance(found, Mapping)
            within = cast("Mapping[str, object]", found) if is_object else _NOTHING
            for variable, last, presence in names:
                value = within.get(last, ABSENT)
                if presence:
                    variables[variable] = value is not ABSENT
                elif value is not ABSENT:
                    variables[variable] = value
        try:
            return cel.Context(variables)
        except Exception:  # noqa: BLE001 - whatever cannot be converted, no condition can be answered on it
            raise ConditionError from None


class Together:
    """Conditions that are answered in one evaluation, which costs a third of one for each."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._conditions = conditions
        # On a line each, for one may end in a comment.
        self._program = cel.compile("[" + ",".join(f"({each.flat}\n)" for each in conditions) + "]")

    def answers(self, context: cel.Context) -> list[bool | None]:
        """Of each condition what `Condition.holds` says; None where that has no answer."""
        try:
            found = self._program.execute(context)
        except Exception:  # noqa: BLE001 - one of them has no answer, and the others may
            return [_answer(each, context) for each in self._conditions]
        return [each if isinstance(each, bool) else None for each in found]


def _answer(condition: Condition, context: cel.Context) -> bool | None:
    try:
        return condition.holds(context)
    except ConditionError:
        return None


def compile_condition(source: str, constants: Mapping[Path, int] | None = None) -> Condition:
    """`constants` are names that always have the same value.

    Raises ConditionError, with the reason, for what is not CEL.
    """
    try:
        cel.compile(source)
        flat, reads = _flattened(source, constants or {})
        program = cel.compile(flat)
    except ValueError as error:
        reason = next((line for line in str(error).splitlines() if "Syntax error" in line), "")
        raise ConditionError(reason.partition("Syntax error: ")[2] or "it cannot be parsed") from None
    variables = frozenset(name for name in reads if name.path not in (constants or {}))
    return Condition(source, flat, program, frozenset(reads), variables)


class _Found(NamedTuple):
    name: Name
    start: int
    end: int


def _flattened(source: str, constants: Mapping[Path, int]) -> tuple[str, set[Name]]:
    """The expression over flat variables, and the names it reads. Variables that macros bind are left alone."""
    tokens = [match for match in TOKEN.finditer(source) if match.lastgroup != "blank"]
    texts = [token.group() for token in tokens] + [""] * 3
    bound = {
        texts[at + 2]
        for at, text in enumerate(texts)
        if text in _MACROS and texts[at + 1] == "(" and texts[at + 3] == ","
    }
    found: list[_Found] = []
    at = 0
    while at < len(tokens):
        first, steps = at, 1
        at += 1
        if tokens[first].lastgroup != "name" or texts[first] in _WORDS or (first and texts[first - 1] == "."):
            continue
        while texts[at] == "." and at + 1 < len(tokens) and tokens[at + 1].lastgroup == "name":
            at, steps = at + 2, steps + 1
        if texts[at] == "(":  # the last step is a function or method
            steps -= 1
        path = tuple(texts[first : first + 2 * steps : 2])
        if path and path[0] not in bound:
            found.append(_occurrence(path, first, tokens, texts))
    pieces: list[str] = []
    done = 0
    for name, start, end in found:
        pieces += (source[done:start], _written(name, constants))
        done = end
    return "".join((*pieces, source[done:])), {each.name for each in found}


def _written(name: Name, constants: Mapping[Path, int]) -> str:
    if name.path not in constants:
        return name.variable
    return "true" if name.presence else f"({constants[name.path]})"


def _occurrence(path: Path, first: int, tokens: list[re.Match[str]], texts: list[str]) -> _Found:
    last = first + 2 * (len(path) - 1)
    if first >= 2 and texts[first - 2 : first] == ["has", "("] and texts[last + 1] == ")":
        return _Found(Name(path, presence=True), tokens[first - 2].start(), tokens[last + 1].end())
    return _Found(Name(path, presence=False), tokens[first].start(), tokens[last].end())
