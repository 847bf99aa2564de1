"""Conditions in the Common Expression Language (https://cel.dev), compiled once and evaluated on picked values."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import cel

Path = tuple[str, ...]
# What a tool's conditions read: a name to the names below it, or to None where the whole value is read.
Tree = dict[str, "Tree | None"]

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*)
    |(?P<string>[rRbB]{0,2}(?:\"{3}(?:.|\n)*?\"{3}|'{3}(?:.|\n)*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<number>[0-9][0-9A-Za-z_]*)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_MACROS = frozenset(("all", "exists", "exists_one", "map", "filter"))
_UNDEFINED = re.compile(r"Undefined variable or function: '([^']*)'")
_WORDS = frozenset(("true", "false", "null", "in"))


class ConditionError(Exception):
    """A condition that does not compile, or that could not be evaluated on what it was given. Says nothing about it."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A compiled condition and the dotted names it reads."""

    source: str
    program: cel.Program
    paths: frozenset[Path]

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


def compile_condition(source: str) -> Condition:
    """Raises ConditionError, with the reason, for what is not CEL."""
    try:
        program = cel.compile(source)
    except ValueError as error:
        reason = next((line for line in str(error).splitlines() if "Syntax error" in line), "")
        raise ConditionError(reason.partition("Syntax error: ")[2] or "it cannot be parsed") from None
    return Condition(source, program, frozenset(_paths(source)))


def _paths(source: str) -> Iterable[Path]:
    """The dotted names in an expression, without method names and the variables that macros bind."""
    tokens = [(m.lastgroup, m.group()) for m in _TOKEN.finditer(source) if m.lastgroup != "blank"]
    tokens.append(("other", ""))
    chains: list[Path] = []
    bound: set[str] = set()
    at = 0
    while at < len(tokens):
        kind, text = tokens[at]
        if kind != "name" or text in _WORDS:
            at += 1
            continue
        chain = [text]
        after_value = at > 0 and tokens[at - 1][1] == "."
        while tokens[at + 1][1] == "." and tokens[at + 2][0] == "name":
            chain.append(tokens[at + 2][1])
            at += 2
        at += 1
        if tokens[at][1] == "(":
            called = chain.pop()
            if called in _MACROS and tokens[at + 1][0] == "name":
                bound.add(tokens[at + 1][1])
        if chain and not after_value:
            chains.append(tuple(chain))
    return (chain for chain in chains if chain[0] not in bound)


def tree_of(paths: Iterable[Path]) -> Tree:
    """Paths joined into one tree; a path that ends above others takes them in."""
    tree: Tree = {}
    for path in sorted(paths, key=len):
        node = tree
        for step in path[:-1]:
            below = node.setdefault(step, {})
            if below is None:
                break
            node = below
        else:
            node.setdefault(path[-1], None)
    return tree


def context_of(tree: Tree, values: Mapping[str, object]) -> cel.Context:
    """A context with only what the tree names: converting values is the greatest cost of a decision.

    Raises ConditionError for values that CEL does not have.
    """
    try:
        return cel.Context(cast(dict[str, Any], _picked(tree, values)))
    except Exception:  # noqa: BLE001 - whatever cannot be converted, no condition can be answered on it
        raise ConditionError from None


def _picked(tree: Tree, values: Mapping[str, object]) -> dict[str, object]:
    picked: dict[str, object] = {}
    for name, below in tree.items():
        if name in values:
            value = values[name]
            if below is not None and isinstance(value, dict):
                value = _picked(below, cast(dict[str, object], value))
            picked[name] = value
    return picked
