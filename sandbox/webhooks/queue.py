"""What is to be delivered where, and what came of it: the tables behind webhooks.

A delivery is one event for one endpoint. It is due at `due_us`, which is null once it is over: answered with 2xx, or
given up. One with `after` waits until that other delivery was attempted. It counts as attempted once the attempt is
recorded; a process killed before that delivers again.
"""

import sqlite3
from dataclasses import dataclass
from typing import Any, Literal

from sandbox.state import State, to_iso
from sandbox.stripe_shapes import new_id
from sandbox.webhooks.signing import Forgery

CONFIGURED = "we_configured"
ATTEMPTS, LONGEST_PAUSE_US = 16, 60_000_000
_FIRST_PAUSE_US = 200_000
_REPEATED_AFTER_US = 1_000_000
Mode = Literal["held", "before_answer"]


@dataclass(frozen=True)
class Delivery:
    """What to send: an event's body to a URL, signed with the secret or forged."""

    seq: int
    url: str
    secret: str
    body: bytes
    forgery: Forgery | None


def configure(state: State, url: str | None, secret: str) -> None:
    """The endpoint that the process was started with, or none. What it has not got yet goes to its new URL."""
    with state.transaction():
        if url is None:
            _remove(state, CONFIGURED)
            return
        for row in state.db.execute("SELECT endpoint_id FROM webhook_endpoints WHERE url = ?", (url,)).fetchall():
            if row["endpoint_id"] != CONFIGURED:
                _remove(state, row["endpoint_id"])
        state.db.execute("INSERT OR REPLACE INTO webhook_endpoints VALUES (?, ?, ?)", (CONFIGURED, url, secret))


def register(state: State, url: str, secret: str) -> None:
    """A further endpoint, or another secret of one. Call in a transaction."""
    changed = state.db.execute("UPDATE webhook_endpoints SET secret = ? WHERE url = ?", (secret, url))
    if not changed.rowcount:
        state.db.execute("INSERT INTO webhook_endpoints VALUES (?, ?, ?)", (new_id("we"), url, secret))


def unregister_all(state: State) -> None:
    """Forget every endpoint and what waits for it. Call in a transaction."""
    for endpoint_id in endpoint_ids(state):
        _remove(state, endpoint_id)


def _remove(state: State, endpoint_id: str) -> None:
    state.db.execute("UPDATE webhook_deliveries SET due_us = NULL WHERE endpoint_id = ?", (endpoint_id,))
    state.db.execute("DELETE FROM webhook_endpoints WHERE endpoint_id = ?", (endpoint_id,))


def endpoint_ids(state: State) -> list[str]:
    return [row[0] for row in state.db.execute("SELECT endpoint_id FROM webhook_endpoints")]


def add_event(state: State, event_id: str, type_: str, object_id: str | None, body: bytes) -> None:
    state.db.execute(
        "INSERT INTO webhook_events (event_id, type, object_id, body) VALUES (?, ?, ?, ?)",
        (event_id, type_, object_id, body),
    )


def announce(state: State, event_id: str) -> None:
    """Queues an event for every endpoint: in no certain order, and one in eight twice. Call in a transaction."""
    seq = state.db.execute("SELECT seq FROM webhook_events WHERE event_id = ?", (event_id,)).fetchone()["seq"]
    # Scattered over 65 ms, the same at every run.
    due_us = state.now_us() + seq * 40_503 % 65_536
    deliver(state, event_id, due_us=due_us)
    if seq % 8 == 0:
        deliver(state, event_id, due_us=due_us + _REPEATED_AFTER_US)


def deliver(state: State, event_id: str, *, due_us: int = 0, forgery: Forgery | None = None) -> None:
    """Queues a kept event (again) for every endpoint. Call in a transaction."""
    state.db.execute(
        "INSERT INTO webhook_deliveries (endpoint_id, event_id, forgery, due_us)"
        " SELECT endpoint_id, ?, ?, ? FROM webhook_endpoints",
        (event_id, forgery, due_us),
    )


def last_events(state: State, count: int) -> list[str]:
    """The ids of the last events, oldest first."""
    rows = state.db.execute("SELECT event_id FROM webhook_events ORDER BY seq DESC LIMIT ?", (count,))
    return [row["event_id"] for row in rows][::-1]


def last_seq(state: State) -> int:
    """What grows with every event."""
    return state.db.execute("SELECT coalesce(max(seq), 0) FROM webhook_events").fetchone()[0]


def newest_first(state: State) -> None:
    """Puts what waits in a row: each only after the event after it was attempted. Call in a transaction."""
    previous: dict[str, int] = {}
    rows = state.db.execute(
        "SELECT d.seq, d.endpoint_id FROM webhook_deliveries d JOIN webhook_events e USING (event_id)"
        " WHERE d.due_us IS NOT NULL AND d.attempts = 0 ORDER BY e.seq DESC, d.seq"
    ).fetchall()
    for row in rows:
        after = previous.get(row["endpoint_id"])
        state.db.execute("UPDATE webhook_deliveries SET after = ?, due_us = 0 WHERE seq = ?", (after, row["seq"]))
        previous[row["endpoint_id"]] = row["seq"]


def ready(state: State, limit: int) -> list[tuple[Delivery, int]]:
    """What may be sent next and when (microseconds), soonest first; nothing while deliveries are held."""
    if mode(state, "held"):
        return []
    rows = state.db.execute(
        "SELECT d.seq, w.url, w.secret, e.body, d.forgery, d.due_us FROM webhook_deliveries d"
        " JOIN webhook_events e USING (event_id) JOIN webhook_endpoints w USING (endpoint_id)"
        " WHERE d.due_us IS NOT NULL AND (d.after IS NULL OR EXISTS"
        " (SELECT 1 FROM webhook_attempts a WHERE a.delivery = d.after)) ORDER BY d.due_us, d.seq LIMIT ?",
        (limit,),
    )
    return [(Delivery(*tuple(row)[:-1]), row["due_us"]) for row in rows]


def attempted(state: State, delivery: Delivery, status: int | None, error: str | None) -> None:
    """Keeps what came of an attempt. What was not answered with 2xx is due again after a longer pause, in the end
    never; a forged one is sent once.
    """
    with state.transaction():
        now = state.now_us()
        state.db.execute(
            "INSERT INTO webhook_attempts (delivery, at_us, status, error) VALUES (?, ?, ?, ?)",
            (delivery.seq, now, status, error),
        )
        row = state.db.execute(
            "SELECT attempts, due_us FROM webhook_deliveries WHERE seq = ?", (delivery.seq,)
        ).fetchone()
        count = row["attempts"] + 1
        accepted = status is not None and 200 <= status < 300
        over = accepted or delivery.forgery is not None or count >= ATTEMPTS or row["due_us"] is None
        due = None if over else now + min(_FIRST_PAUSE_US * 2 ** (count - 1), LONGEST_PAUSE_US)
        state.db.execute(
            "UPDATE webhook_deliveries SET attempts = ?, due_us = ? WHERE seq = ?", (count, due, delivery.seq)
        )


def all_attempted(state: State, since: int) -> bool:
    """Whether every event after `since` (of `last_seq`) was attempted somewhere."""
    missing = state.db.execute(
        "SELECT 1 FROM webhook_events e WHERE e.seq > ? AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d"
        " JOIN webhook_attempts a ON a.delivery = d.seq WHERE d.event_id = e.event_id) LIMIT 1",
        (since,),
    ).fetchone()
    return missing is None


def mode(state: State, name: Mode) -> int:
    row = state.db.execute("SELECT value FROM webhook_modes WHERE name = ?", (name,)).fetchone()
    return 0 if row is None else row["value"]


def set_mode(state: State, name: Mode, value: int) -> None:
    state.db.execute("INSERT OR REPLACE INTO webhook_modes VALUES (?, ?)", (name, value))


def take_before_answer(state: State) -> bool:
    """Whether the webhooks of the refund just made are to arrive before its answer; used up once."""
    left = mode(state, "before_answer")
    if left:
        set_mode(state, "before_answer", left - 1)
    return left > 0


def standing(state: State) -> dict[str, Any]:
    """The endpoints (never their secrets), the modes, and how many deliveries are not over."""
    endpoints = state.db.execute("SELECT endpoint_id, url FROM webhook_endpoints ORDER BY rowid")
    pending = state.db.execute("SELECT count(*) FROM webhook_deliveries WHERE due_us IS NOT NULL").fetchone()[0]
    return {
        "endpoints": [{"id": row["endpoint_id"], "url": row["url"]} for row in endpoints],
        "held": bool(mode(state, "held")),
        "before_answer": mode(state, "before_answer"),
        "pending": pending,
    }


def attempts(state: State) -> list[dict[str, Any]]:
    """Every attempt, in order: the event, where it went, what was answered (or which error there was instead)."""
    rows = state.db.execute(
        "SELECT a.*, d.event_id, d.forgery, d.endpoint_id, e.type, e.object_id FROM webhook_attempts a"
        " JOIN webhook_deliveries d ON d.seq = a.delivery JOIN webhook_events e USING (event_id) ORDER BY a.seq"
    )
    return [_shown(row) for row in rows]


def _shown(row: sqlite3.Row) -> dict[str, Any]:
    names = ("event_id", "type", "object_id", "endpoint_id", "delivery", "forgery", "status", "error")
    return {**{name: row[name] for name in names}, "at": to_iso(row["at_us"])}
