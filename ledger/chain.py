"""The hash chain of one call's events. Pure."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ledger.keys import DataKey
from schemas.canonical import canonical
from schemas.events import Event, Pruned, Recorded
from schemas.upcasting import read_event

GENESIS = bytes(32)


@dataclass(frozen=True, slots=True)
class EventRow:
    """One row of `events` as it is stored. One of body and its hash is None: a body that was pruned leaves its hash."""

    tenant: str
    request_id: str
    n: int
    type: str
    version: int
    at: datetime
    key_id: str
    body: bytes | None
    previous: bytes
    hash: bytes
    body_hash: bytes | None = None

    @classmethod
    def of(cls, row: Any) -> "EventRow":
        """A record of `events`, whatever else it has beside the columns."""
        return cls(**{name: row[name] for name in cls.__slots__})


@dataclass(frozen=True, slots=True)
class Head:
    """The last event of a call: its number and hash."""

    n: int
    hash: bytes


def body_context(tenant: str, request_id: str, n: int, type_: str, version: int) -> bytes:
    """Associated data of an event's ciphertext: a body cannot be moved to another place."""
    return canonical([tenant, request_id, n, type_, version])


def open_event(row: EventRow, key: DataKey) -> Event:
    """The event of a row that has its body, whatever version it was written in. Raises UnknownEvent."""
    context = body_context(row.tenant, row.request_id, row.n, row.type, row.version)
    return read_event(row.type, row.version, key.open(row.body or b"", context))


def opened(row: EventRow, key: DataKey | None) -> Recorded:
    """The event of a row; that it is gone where its body is, or its customer's key."""
    if row.body is None or key is None:
        return Pruned(type=row.type, erased=row.body is not None)
    return open_event(row, key)


def body_digest(row: EventRow) -> bytes:
    """SHA-256 of the ciphertext, also where only that is left; empty, and no hash, in a row with both or neither."""
    if row.body is None:
        return row.body_hash or b""
    return hashlib.sha256(row.body).digest() if row.body_hash is None else b""


def header(row: EventRow) -> bytes:
    """What is hashed of an event: every plain column, the ciphertext's hash and the hash of the event before it, as
    canonical JSON (RFC 8785)."""
    return canonical(
        {
            "at": row.at.astimezone(UTC).isoformat(timespec="microseconds"),
            "body": body_digest(row).hex(),
            "key_id": row.key_id,
            "n": row.n,
            "previous": row.previous.hex(),
            "request_id": row.request_id,
            "tenant": row.tenant,
            "type": row.type,
            "version": row.version,
        }
    )


def event_hash(row: EventRow) -> bytes:
    """SHA-256(0x00 || header), which is the event's leaf in the Merkle tree (RFC 6962, 2.1)."""
    return leaf_hash(header(row))


def leaf_hash(hashed: bytes) -> bytes:
    """The hash of an event with this header."""
    return hashlib.sha256(b"\x00" + hashed).digest()


def extend(
    head: Head, events: Sequence[Event], *, tenant: str, request_id: str, at: datetime, key: DataKey
) -> tuple[list[EventRow], Head]:
    """Rows that follow `head`, and the new head."""
    rows: list[EventRow] = []
    for event in events:
        n = head.n + 1
        body = key.seal(
            canonical(event.model_dump(mode="json")), body_context(tenant, request_id, n, event.type, event.version)
        )
        bare = EventRow(tenant, request_id, n, event.type, event.version, at, key.key_id, body, head.hash, b"")
        head = Head(n, event_hash(bare))
        rows.append(
            EventRow(tenant, request_id, n, event.type, event.version, at, key.key_id, body, bare.previous, head.hash)
        )
    return rows, head


def break_in(rows: Sequence[EventRow], head: Head) -> str | None:
    """Pure. The first place where the chain breaks, in words; None when it holds from first event to the call's head.

    `rows` are in order. This needs no key: the hashes cover the ciphertext.
    """
    expected = Head(0, GENESIS)
    for row in rows:
        if row.n != expected.n + 1:
            return f"event {expected.n + 1} is missing"
        if row.previous != expected.hash:
            return f"event {row.n} does not follow event {expected.n}"
        if event_hash(row) != row.hash:
            return f"event {row.n} was altered"
        expected = Head(row.n, row.hash)
    if expected != head:
        return f"the call ends at event {head.n}, its events at {expected.n}"
    return None
