"""Dotted names and the values behind them."""

from collections.abc import Mapping
from typing import Final, cast

Path = tuple[str, ...]


class _Absent:
    """Apart from None, which is a value."""


ABSENT: Final = _Absent()


def look_up(values: Mapping[str, object], path: Path) -> object:
    """The value at a path; ABSENT where there is none."""
    value = values.get(path[0], ABSENT)
    for step in path[1:]:
        if not isinstance(value, Mapping):
            return ABSENT
        value = cast(Mapping[str, object], value).get(step, ABSENT)
    return value
