"""Names in an `http.yaml`, and the values behind them when a call is made."""

import re
from collections.abc import Iterator, Mapping
from typing import cast

from pydantic import JsonValue

from policy.values import ABSENT, look_up

_IN_PATH = re.compile(r"\{([a-z0-9_.]+)\}")
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


def names_in_path(template: str) -> list[str]:
    return _IN_PATH.findall(template)


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


class NotPlainError(ValueError):
    """Something that belongs into a path is no plain identifier. The only argument is its name."""


def path_of(template: str, values: Mapping[str, object]) -> tuple[str, dict[str, str]]:
    """(template, values of its places) as `Remote.exchange` takes them. Raises NotPlainError."""
    filled: dict[str, str] = {}
    for name in names_in_path(template):
        found = look_up(values, tuple(name.split(".")))
        text = str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""
        if PLAIN_ID.fullmatch(text) is None:
            raise NotPlainError(name)
        filled[name.replace(".", "_")] = text
    return _IN_PATH.sub(lambda place: "{" + place[1].replace(".", "_") + "}", template), filled


def query_of(query: Mapping[str, JsonValue], values: Mapping[str, object]) -> dict[str, str] | None:
    """The query as text; None where there is none."""
    filled = {name: resolve(value, values) for name, value in query.items()}
    given = {name: value for name, value in filled.items() if value is not None}
    return {name: str(each).lower() if isinstance(each, bool) else str(each) for name, each in given.items()} or None
