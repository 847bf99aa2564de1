"""Idempotent requests as Stripe documents them: https://docs.stripe.com/api/idempotent_requests

The status and body of the first request of a key are kept once its endpoint began to execute, whatever the status, and
answered again for 24 hours. Nothing is kept of a request whose parameters were invalid or that met another one of its
key still being executed. A key that comes with other parameters is refused.
"""

import hashlib
import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sandbox.state import State

KEPT_US = 24 * 3600 * 1_000_000


class Verdict(Enum):
    FRESH = "fresh"
    REPLAY = "replay"
    IN_USE = "in_use"
    MISMATCH = "mismatch"


@dataclass(frozen=True)
class Stored:
    """The first answer of a key."""

    fingerprint: str
    status: int
    body: bytes
    request_id: str
    at_us: int


def fingerprint(method: str, path: str, parameters: Any) -> str:
    """SHA-256 of what must be the same for a key to mean the same request; independent of the parameters' order."""
    text = json.dumps([method, path, parameters], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def judge(stored: Stored | None, wanted: str, now_us: int, *, in_flight: bool) -> Verdict:
    """What to do with a request of this key, given what is stored for it."""
    if in_flight:
        return Verdict.IN_USE
    if stored is None or now_us - stored.at_us >= KEPT_US:
        return Verdict.FRESH
    return Verdict.REPLAY if stored.fingerprint == wanted else Verdict.MISMATCH


def find(state: State, scope: str, key: str) -> Stored | None:
    row = state.db.execute(
        "SELECT fingerprint, status, body, request_id, at_us FROM idempotency WHERE scope = ? AND key = ?", (scope, key)
    ).fetchone()
    return None if row is None else Stored(*row)


def keep(state: State, scope: str, key: str, stored: Stored) -> None:
    """Keeps the first answer of a key, in place of one that has expired."""
    state.db.execute(
        "INSERT OR REPLACE INTO idempotency VALUES (?, ?, ?, ?, ?, ?, ?)",
        (scope, key, stored.fingerprint, stored.status, stored.body, stored.request_id, stored.at_us),
    )
