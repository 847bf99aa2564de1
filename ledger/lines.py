"""The ledger outside of its database: the files of an export and how each line is written. Pure.

    keys.json             {"origin": …, "verifier_keys": […]}: which ledger, and every key that ever signed, in order
    seals-000000.jsonl    seals, one per line: {"checkpoint", "ids", "number", "peaks", "size"}
    events-000000.jsonl   what these seals cover, one event per line, in the order of the tree
    bodies-000000.bin     their ciphertexts, one after the other
    …                     a next segment after each 65,536 events or a few more: a seal is never divided
    unsealed.jsonl, .bin  what was committed and not sealed yet
    end.json              {"at", "events", "seals", "settled", "unsealed"}: written last; the export is whole with it

An event's line is {"event": HEADER, "hash": …, "id": …, "size": …}, where HEADER is to the byte what is hashed, and
`size` is the ciphertext's length: null where it was pruned. {"missing": id} stands for an event that a seal names and
that is not there. The whole format: docs/reference/ledger-format.md.
"""

import re
from collections import deque
from pathlib import Path

import msgspec

from ledger.chain import EventRow, header
from ledger.seals import Seal

SEGMENT = 1 << 16
"""After how many events a next segment begins."""
KEYS, END, UNSEALED = "keys.json", "end.json", "unsealed"

MISSING_LINE = re.compile(rb'\{"missing":([1-9]\d*)\}\n')


class HashedHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """What is hashed of an event; hashes in hexadecimal."""

    at: str
    body: str
    key_id: str
    n: int
    previous: str
    request_id: str
    tenant: str
    type: str
    version: int


class EventLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """An event's line."""

    event: HashedHeader
    hash: str
    id: int
    size: int | None


read_event_line = msgspec.json.Decoder(EventLine).decode
"""The event of a line. Raises `msgspec.MsgspecError`, which is a ValueError, for anything else."""


def header_in(line: bytes) -> bytes:
    """The header of an event's line to the byte; something else where the line is not as it is written here."""
    return line[9 : line.rfind(b',"hash":"')]


def segment_files(folder: Path, number: int) -> tuple[Path, Path, Path]:
    """Where a segment's seals, events and bodies are."""
    return (
        folder / f"seals-{number:06}.jsonl",
        folder / f"events-{number:06}.jsonl",
        folder / f"bodies-{number:06}.bin",
    )


def segments_in(folder: Path) -> int:
    """How many segments there are, one after the other from the first."""
    number = 0
    while segment_files(folder, number)[0].exists():
        number += 1
    return number


def event_line(row: EventRow, event_id: int) -> bytes:
    """One event as a line."""
    size = b"null" if row.body is None else b"%d" % len(row.body)
    return b'{"event":%b,"hash":"%b","id":%d,"size":%b}\n' % (header(row), row.hash.hex().encode(), event_id, size)


def missing_line(event_id: int) -> bytes:
    return b'{"missing":%d}\n' % event_id


class _SealLine(msgspec.Struct, forbid_unknown_fields=True):
    """A seal's line, its fields in the order of canonical JSON."""

    checkpoint: str
    ids: list[tuple[int, int]]
    number: int
    peaks: list[str]
    size: int


_read_seal_line = msgspec.json.Decoder(_SealLine).decode


def seal_line(seal: Seal) -> bytes:
    """One seal as a line."""
    peaks = [peak.hex() for peak in seal.peaks]
    return msgspec.json.encode(_SealLine(seal.checkpoint, list(seal.spans), seal.number, peaks, seal.size)) + b"\n"


def read_seal(line: bytes) -> Seal:
    """The seal of a line. Raises ValueError."""
    found = _read_seal_line(line)
    peaks = tuple(bytes.fromhex(peak) for peak in found.peaks)
    seal = Seal(found.number, tuple(found.ids), found.size, peaks, found.checkpoint)
    if seal_line(seal) != line or any(first > last for first, last in seal.spans):
        raise ValueError("that is no seal as it is written")
    return seal


def last_line(path: Path) -> bytes:
    """The last line of a file; empty when there is none."""
    with path.open("rb") as file:
        return next(iter(deque(file, maxlen=1)), b"")
