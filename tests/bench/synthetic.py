"""An export as a busy ledger would have it, without a database: calls of five events, a seal for every 300."""

import os
import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.chain import GENESIS, EventRow, event_hash
from ledger.checkpoints import NO_SEAL, Checkpoint, SealKey, note_hash
from ledger.exporting import Segments
from ledger.lines import END, KEYS, UNSEALED
from ledger.merkle import Frontier
from ledger.seals import Seal
from schemas.canonical import canonical

_TYPES = ("call.proposed", "call.decided", "effect.intended", "effect.confirmed", "call.settled")
_CALLS_PER_SEAL = 60
_START = datetime(2026, 11, 30, tzinfo=UTC)


def write_export(folder: Path, events: int, done: Callable[[int], None]) -> None:
    """At least so many events, of 700 to 1100 bytes as they are in practice."""
    folder.mkdir()
    key = SealKey("counterseal.ledger/bench", Ed25519PrivateKey.generate())
    pool, tree, previous, event_id, number = os.urandom(1 << 20), Frontier(), NO_SEAL, 0, 0
    with Segments(folder, 0) as segments:
        while event_id < events:
            first, rows = event_id + 1, dict[int, dict[str, Any]]()
            for _ in range(_CALLS_PER_SEAL):
                request_id, before = f"act_{secrets.token_hex(16)}", GENESIS
                for n, type_ in enumerate(_TYPES, start=1):
                    event_id += 1
                    at = event_id * 977 % (1 << 19)
                    body = pool[at : at + 700 + event_id % 400]
                    when = _START + timedelta(milliseconds=event_id)
                    row = EventRow("default", request_id, n, type_, 1, when, "dk_0", body, before, b"")
                    before = event_hash(row)
                    fields = {name: getattr(row, name) for name in EventRow.__slots__}
                    rows[event_id] = {**fields, "id": event_id, "hash": before}
            tree.extend([rows[each]["hash"] for each in sorted(rows)])
            number += 1
            when = _START + timedelta(milliseconds=event_id)
            note = key.sign(Checkpoint(key.name, tree.size, tree.root, number, previous, when).text)
            previous = note_hash(note)
            segments.add(Seal(number, ((first, event_id),), tree.size, tuple(tree.peaks), note), rows)
            done(event_id)
    (folder / KEYS).write_bytes(canonical({"origin": key.name, "verifier_keys": [str(key.public)]}))
    for ending in ("jsonl", "bin"):
        (folder / f"{UNSEALED}.{ending}").touch()
    (folder / END).write_bytes(
        canonical({"at": "", "events": tree.size, "seals": number, "settled": event_id, "unsealed": 0})
    )
