"""JSON as RFC 8259 wants it from an interoperable sender: UTF-8, no repeated names, finite numbers."""

import json
from math import isfinite
from typing import Any, NoReturn

from pydantic import JsonValue

# Far more digits than any number that is used; Python's own limit is on the time that reading one takes.
_MOST_DIGITS = 400


class UnreadableError(ValueError):
    """The bytes are not strict JSON. The text says why, and nothing about what they are."""


def loads(body: bytes) -> JsonValue:
    """The JSON value in `body`. Raises UnreadableError."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableError("it is not UTF-8") from None
    try:
        return json.loads(
            text, object_pairs_hook=_unique, parse_constant=_not_finite, parse_int=_integer, parse_float=_number
        )
    except UnreadableError:
        raise
    except RecursionError:
        raise UnreadableError("it is nested too deeply") from None
    except ValueError:
        raise UnreadableError("it is not valid JSON") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise UnreadableError("a name is given twice in one object")
    return content


def _not_finite(constant: str) -> NoReturn:
    raise UnreadableError("a number is not finite")


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise UnreadableError("a number is too long")
    return int(digits)


def _number(digits: str) -> float:
    if len(digits) > _MOST_DIGITS:
        raise UnreadableError("a number is too long")
    number = float(digits)
    if not isfinite(number):
        raise UnreadableError("a number is not finite")
    return number
