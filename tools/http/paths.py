"""Names in the path and query of a request, and the values behind them when it is made."""

import re
from collections.abc import Mapping

from pydantic import JsonValue

from policy.values import look_up
from tools.declared.references import PLAIN_ID, resolve

_IN_PATH = re.compile(r"\{([a-z0-9_.]+)\}")


def names_in_path(template: str) -> list[str]:
    return _IN_PATH.findall(template)


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
