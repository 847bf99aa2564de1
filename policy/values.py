"""Dotted names and the values behind them."""

from collections.abc import Mapping
from typing import Any, Final

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
