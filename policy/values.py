"""Dotted names and the values behind them."""

from collections.abc import Mapping
from typing import Any, Final, cast

Path = tuple[str, ...]


class _Absent:
    """Apart from None, which is a value."""


ABSENT: Final = _Absent()


def look_up(values: Mapping[str, object], path: Path) -> object:
    """The value at a path through objects of JSON; ABSENT where there is none."""
    value: Any = values
    try:
        for step in path:
            value = value[step]
    except (KeyError, TypeError):  # no such name, or what it would be in is no object
        return ABSENT
    return value


def nested(values: Mapping[str, object]) -> dict[str, object]:
    """Values by dotted name as objects in one another; a value with names below it makes room for them."""
    root: dict[str, object] = {}
    for name in sorted(values):
        *above, last = name.split(".")
        node = root
        for step in above:
            node = cast("dict[str, object]", node.setdefault(step, {}))
        node[last] = values[name]
    return root
