"""JSON as RFC 8259 wants it from an interoperable sender: UTF-8, no repeated names, no NaN or Infinity."""

import json
from typing import Any, NoReturn

from pydantic import JsonValue


class UnreadableError(ValueError):
    """The bytes are not strict JSON. Says nothing about what they are."""


def loads(body: bytes) -> JsonValue:
    """The JSON value in `body`. Raises UnreadableError."""
    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise UnreadableError("not strict JSON") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise UnreadableError("a name is given twice")
    return content


def _refuse(constant: str) -> NoReturn:
    raise UnreadableError("a number that is not finite")
