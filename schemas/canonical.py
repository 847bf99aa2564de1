"""Canonical JSON (RFC 8785) and digests over it."""

import hashlib

import rfc8785
from pydantic import JsonValue


def canonical(value: JsonValue) -> bytes:
    """RFC 8785 bytes. Integers beyond 2^53 raise `rfc8785.CanonicalizationError`, which is a ValueError; floats
    ValueError: what is hashed or signed has none."""
    if _has_float(value):
        raise ValueError("a float is not exact")
    return rfc8785.dumps(value)  # pyright: ignore[reportArgumentType]  # JsonValue is its input type, spelled invariantly


def digest(value: JsonValue) -> str:
    """Hex SHA-256 of the canonical form."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _has_float(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return any(map(_has_float, value.values()))
    if isinstance(value, list):
        return any(map(_has_float, value))
    return isinstance(value, float)
