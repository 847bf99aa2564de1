"""Canonical JSON (RFC 8785) and digests over it."""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from typing import cast

import rfc8785
from pydantic import JsonValue

_LARGEST = 2**53 - 1
_ALIKE = (str, bool, type(None))
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, check_circular=False).encode


def canonical(value: JsonValue) -> bytes:
    """RFC 8785 bytes. Integers beyond 2^53 raise `rfc8785.CanonicalizationError`, which is a ValueError; floats
    ValueError: what is hashed or signed has none."""
    if _is_plain(value):
        with suppress(UnicodeEncodeError):
            return _encode(value).encode()
    if _has_float(value):
        raise ValueError("a float is not exact")
    return rfc8785.dumps(value)  # pyright: ignore[reportArgumentType]  # JsonValue is its input type, spelled invariantly


def digest(value: JsonValue) -> str:
    """Hex SHA-256 of the canonical form."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _is_plain(value: object) -> bool:
    """Whether the standard library, which is several times faster, writes it in canonical form too: names in ASCII have
    one order, and of numbers there are only such integers as are written alike."""
    kind = type(value)
    if kind is dict:
        content = cast("dict[object, object]", value)
        return all(type(name) is str and name.isascii() for name in content) and _are_plain(content.values())
    if kind is list:
        return _are_plain(cast("list[object]", value))
    if kind is int:
        return -_LARGEST <= cast(int, value) <= _LARGEST
    return kind in _ALIKE


def _are_plain(values: Iterable[object]) -> bool:
    return all(type(each) in _ALIKE or _is_plain(each) for each in values)


def _has_float(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return any(map(_has_float, value.values()))
    if isinstance(value, list):
        return any(map(_has_float, value))
    return isinstance(value, float)
