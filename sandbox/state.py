"""All state of the sandbox in one SQLite file, so that it survives the process being killed.

Write-ahead log with `synchronous=NORMAL`: a killed process loses nothing that was answered; only a power cut could.
Calls run directly in the event loop's thread: each takes some ten microseconds, a thread hop would cost more.
"""

import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

SCHEMA = """
CREATE TABLE IF NOT EXISTS customers (customer_id TEXT PRIMARY KEY, line TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS orders (
    order_id TEXT PRIMARY KEY, customer_id TEXT NOT NULL, placed_us INTEGER NOT NULL, status TEXT NOT NULL,
    version INTEGER NOT NULL, line TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS orders_of_customer ON orders (customer_id, placed_us);
CREATE TABLE IF NOT EXISTS order_originals (order_id TEXT PRIMARY KEY, line TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS shipments (tracking_id TEXT PRIMARY KEY, line TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS refund_drafts (
    draft_id TEXT PRIMARY KEY, order_id TEXT NOT NULL, operation_id TEXT, line TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS refund_drafts_by_operation ON refund_drafts (operation_id);
CREATE TABLE IF NOT EXISTS credits (
    seq INTEGER PRIMARY KEY, customer_id TEXT NOT NULL, amount INTEGER NOT NULL, operation_id TEXT,
    line TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS credits_of_customer ON credits (customer_id, operation_id);
CREATE TABLE IF NOT EXISTS articles (article_id INTEGER PRIMARY KEY, line TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS tickets (
    ticket_id INTEGER PRIMARY KEY, updated_us INTEGER NOT NULL, line TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS audits (
    audit_id INTEGER PRIMARY KEY, ticket_id INTEGER NOT NULL, author_id INTEGER NOT NULL, body TEXT NOT NULL,
    public INTEGER NOT NULL, custom TEXT NOT NULL, at_us INTEGER NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS audits_of_ticket ON audits (ticket_id);
CREATE TABLE IF NOT EXISTS operations (
    seq INTEGER PRIMARY KEY, order_id TEXT NOT NULL, operation_id TEXT, kind TEXT NOT NULL,
    at_us INTEGER NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS operations_of_order ON operations (order_id);
CREATE TABLE IF NOT EXISTS payments (
    payment_id TEXT PRIMARY KEY, order_id TEXT NOT NULL, method TEXT NOT NULL, amount INTEGER NOT NULL,
    currency TEXT NOT NULL, created_us INTEGER NOT NULL, disputed INTEGER NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS payments_of_order ON payments (order_id);
CREATE TABLE IF NOT EXISTS refunds (
    seq INTEGER PRIMARY KEY, refund_id TEXT NOT NULL UNIQUE, payment_id TEXT NOT NULL, amount INTEGER NOT NULL,
    currency TEXT NOT NULL, status TEXT NOT NULL, reason TEXT, metadata TEXT NOT NULL, source TEXT NOT NULL,
    created_us INTEGER NOT NULL, visible_us INTEGER NOT NULL, fails_on_look INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX IF NOT EXISTS refunds_by_time ON refunds (created_us);
CREATE INDEX IF NOT EXISTS refunds_of_payment_by_time ON refunds (payment_id, created_us);
CREATE INDEX IF NOT EXISTS refunded_of_payment ON refunds (payment_id, status, amount);
CREATE TABLE IF NOT EXISTS effects (
    seq INTEGER PRIMARY KEY, refund_id TEXT NOT NULL, payment_id TEXT NOT NULL, amount INTEGER NOT NULL,
    currency TEXT NOT NULL, idempotency_key TEXT, operation_id TEXT, at_us INTEGER NOT NULL) STRICT;
CREATE TRIGGER IF NOT EXISTS effects_no_update BEFORE UPDATE ON effects BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER IF NOT EXISTS effects_no_delete BEFORE DELETE ON effects BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TABLE IF NOT EXISTS requests (
    seq INTEGER PRIMARY KEY, method TEXT NOT NULL, path TEXT NOT NULL, operation TEXT, idempotency_key TEXT,
    done TEXT NOT NULL, status INTEGER, at_us INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS faults (
    seq INTEGER PRIMARY KEY, operation TEXT NOT NULL, payment_id TEXT, do TEXT NOT NULL, times INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS idempotency (
    scope TEXT NOT NULL, key TEXT NOT NULL, fingerprint TEXT NOT NULL, status INTEGER NOT NULL, body BLOB NOT NULL,
    request_id TEXT NOT NULL, at_us INTEGER NOT NULL, PRIMARY KEY (scope, key)) STRICT;
CREATE TABLE IF NOT EXISTS webhook_endpoints (
    endpoint_id TEXT PRIMARY KEY, url TEXT NOT NULL, secret TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS webhook_events (
    seq INTEGER PRIMARY KEY, event_id TEXT NOT NULL UNIQUE, type TEXT NOT NULL, object_id TEXT,
    body BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS webhook_deliveries (
    seq INTEGER PRIMARY KEY, endpoint_id TEXT NOT NULL, event_id TEXT NOT NULL, forgery TEXT, after INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0, due_us INTEGER) STRICT;
CREATE INDEX IF NOT EXISTS webhook_deliveries_due ON webhook_deliveries (due_us, seq) WHERE due_us IS NOT NULL;
CREATE INDEX IF NOT EXISTS webhook_deliveries_of_event ON webhook_deliveries (event_id);
CREATE TABLE IF NOT EXISTS webhook_attempts (
    seq INTEGER PRIMARY KEY, delivery INTEGER NOT NULL, at_us INTEGER NOT NULL, status INTEGER, error TEXT) STRICT;
CREATE INDEX IF NOT EXISTS webhook_attempts_of_delivery ON webhook_attempts (delivery);
CREATE TABLE IF NOT EXISTS webhook_modes (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
"""


@dataclass(frozen=True)
class State:
    """An open database and the clock that everything in the sandbox reads (microseconds since the epoch)."""

    db: sqlite3.Connection
    now_us: Callable[[], int]

    @contextmanager
    def transaction(self) -> Generator[None]:
        """All or nothing, committed before the block is left. Never awaits inside."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def close(self) -> None:
        self.db.close()


def wall_clock_us() -> int:
    return time.time_ns() // 1000


def open_state(directory: Path, now_us: Callable[[], int] = wall_clock_us) -> State:
    """Opens (or creates) `sandbox.sqlite3` under `directory`. Raises OSError or sqlite3.Error when it cannot."""
    directory.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(directory / "sandbox.sqlite3", isolation_level=None, check_same_thread=False)
    db.row_factory = sqlite3.Row
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("PRAGMA busy_timeout=2000")
    db.executescript(SCHEMA)
    return State(db, now_us)


def to_us(instant: str) -> int:
    """ISO 8601 with a time zone to microseconds since the epoch."""
    moment = datetime.fromisoformat(instant)
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def to_iso(us: int) -> str:
    """Microseconds since the epoch to ISO 8601 in UTC."""
    seconds, rest = divmod(us, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest).isoformat().replace("+00:00", "Z")
