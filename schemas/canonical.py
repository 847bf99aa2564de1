"""Canonical JSON (RFC 8785) and digests over it."""

import hashlib

import rfc8785
from pydantic import JsonValue


def canonical(value: JsonValue) -> bytes:
    """RFC 8785 bytes. Integers beyond 2^53 and floats that are not finite raise `rfc8785.CanonicalizationError`."""
    return rfc8785.dumps(value)  # pyright: ignore[reportArgumentType]  # JsonValue is its input type, spelled invariantly


def digest(value: JsonValue) -> str:
    """Hex SHA-256 of the canonical form."""
    return hashlib.sha256(canonical(value)).hexdigest()
