"""Names in a tool's document, and the values behind them when a call is made."""

import re
from collections.abc import Iterator, Mapping
from typing import cast

from pydantic import JsonValue

from policy.values import ABSENT, look_up

PLAIN_ID = re.compile(r"[0-9A-Za-z_-]{1,255}")


def name_of(value: object) -> str | None:
    """`args.amount_cents` for `$args.amount_cents`; None for a constant."""
    return value[1:] if isinstance(value, str) and value.startswith("$") else None


def names_in(value: JsonValue | Mapping[str, JsonValue], where: str) -> Iterator[tuple[str, str]]:
    """(where it stands, the name) of each reference in a value."""
    name = name_of(value)
    if name is not None:
        yield where, name
    elif isinstance(value, Mapping):
        for key, below in value.items():
            yield from names_in(below, f"{where}.{key}")
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from names_in(below, f"{where}.{index}")


def resolve(value: JsonValue, values: Mapping[str, object]) -> JsonValue:
    """The value with references filled in. Optional ones that were not given are left out."""
    name = name_of(value)
    if name is not None:
        found = look_up(values, tuple(name.split(".")))
        return None if found is ABSENT else cast(JsonValue, found)
    if isinstance(value, dict):
        filled = {key: resolve(below, values) for key, below in value.items()}
        return {key: each for key, each in filled.items() if each is not None or value[key] is None}
    if isinstance(value, list):
        return [resolve(each, values) for each in value]
    return value


def at(answer: JsonValue, path: str) -> object:
    """What stands at a dotted path of an answer; `policy.values.ABSENT` where nothing does."""
    return look_up({"answer": answer}, ("answer", *path.split(".")))


def error_of(answer: JsonValue, path: str | None) -> str | None:
    """The remote's error code; None without one."""
    code = None if path is None else at(answer, path)
    return code if isinstance(code, str) else None
