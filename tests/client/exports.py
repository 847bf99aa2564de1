"""A small export, made without a database by what writes them."""

import dataclasses
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.chain import GENESIS, EventRow, event_hash
from ledger.checkpoints import NO_SEAL, Checkpoint, SealKey, note_hash
from ledger.lines import END, KEYS, UNSEALED, event_line, seal_line, segment_files
from ledger.merkle import Frontier
from ledger.seals import Seal, spans
from schemas.canonical import canonical

ORIGIN = "counterseal.ledger/0123456789abcdef0123456789abcdef"
AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def key(number: int, name: str = ORIGIN) -> SealKey:
    return SealKey(name, Ed25519PrivateKey.from_private_bytes(bytes([number] * 32)))


def events(count: int) -> list[tuple[int, EventRow]]:
    """Of three calls in turn, with their ids, of which every seventh was never used."""
    heads: dict[str, tuple[int, bytes]] = {}
    found: list[tuple[int, EventRow]] = []
    event_id = 0
    for number in range(count):
        call = f"act_é{number % 3}"
        n, previous = heads.get(call, (0, GENESIS))
        body = f"{number} sealed".encode()
        bare = EventRow("acme", call, n + 1, "call.proposed", 1, AT, "dk_1", body, previous, b"")
        row = dataclasses.replace(bare, hash=event_hash(bare))
        heads[call] = (n + 1, row.hash)
        event_id += 2 if event_id % 7 == 6 else 1
        found.append((event_id, row))
    return found


def write(
    folder: Path,
    sizes: list[int],
    *,
    segments: int = 1,
    rotate: int = 0,
    unsealed: int = 0,
    said: Callable[[Checkpoint], Checkpoint] = lambda checkpoint: checkpoint,
    skipped: int | None = None,
) -> list[Seal]:
    """Seals of so many events each. `rotate`: after which seal another key signs. Every fifth body was pruned.

    What a ledger that lies would sign: `said` changes each checkpoint, and `skipped` is left out of the events.
    """
    folder.mkdir()
    rows, frontier, signer = events(sum(sizes) + unsealed + (skipped is not None)), Frontier(), key(1)
    if skipped is not None:
        del rows[skipped]
    seals: list[Seal] = []
    for number, size in enumerate(sizes, start=1):
        own = rows[frontier.size : frontier.size + size]
        frontier.extend([row.hash for _, row in own])
        previous = note_hash(seals[-1].checkpoint) if seals else NO_SEAL
        following = key(2).public if number == rotate else None
        at = AT + timedelta(seconds=number)
        checkpoint = said(Checkpoint(ORIGIN, frontier.size, frontier.root, number, previous, at, following))
        ids = tuple(spans([event_id for event_id, _ in own]))
        seal = Seal(number, ids, frontier.size, tuple(frontier.peaks), signer.sign(checkpoint.text))
        signer = signer if following is None else key(2)
        seals.append(seal)
        lines, events_to, bodies = segment_files(folder, (number - 1) * segments // len(sizes))
        _append(lines, seal_line(seal))
        _events(events_to, bodies, own)
    _events(folder / f"{UNSEALED}.jsonl", folder / f"{UNSEALED}.bin", rows[frontier.size :])
    signed = [str(key(each).public) for each in ((1, 2) if rotate else (1,))]
    (folder / KEYS).write_bytes(canonical({"origin": ORIGIN, "verifier_keys": [*signed]}) + b"\n")
    settled = rows[frontier.size - 1][0] if frontier.size else 0
    end = {"events": frontier.size, "seals": len(sizes), "unsealed": unsealed, "settled": settled}
    (folder / END).write_bytes(canonical({**end, "at": AT.isoformat()}) + b"\n")
    return seals


def _events(lines: Path, bodies: Path, rows: list[tuple[int, EventRow]]) -> None:
    written = b"".join(event_line(_pruned(row) if event_id % 5 == 0 else row, event_id) for event_id, row in rows)
    _append(lines, written)
    _append(bodies, b"".join(row.body or b"" for event_id, row in rows if event_id % 5))


def _pruned(row: EventRow) -> EventRow:
    return dataclasses.replace(row, body=None, body_hash=hashlib.sha256(row.body or b"").digest())


def _append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)
