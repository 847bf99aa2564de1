"""All state of the simulated PayPal in one SQLite file. Amounts are integers of the currency's smallest PayPal unit."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from sandbox.state import State, wall_clock_us

SCHEMA = """
CREATE TABLE IF NOT EXISTS tokens (token TEXT PRIMARY KEY, until_us INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS captures (
    capture_id TEXT PRIMARY KEY, order_id TEXT NOT NULL, method TEXT NOT NULL, amount INTEGER NOT NULL,
    currency TEXT NOT NULL, pending INTEGER NOT NULL, disputed INTEGER NOT NULL, created_us INTEGER NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS captures_of_order ON captures (order_id);
CREATE TABLE IF NOT EXISTS refunds (
    seq INTEGER PRIMARY KEY, refund_id TEXT NOT NULL UNIQUE, capture_id TEXT NOT NULL, amount INTEGER NOT NULL,
    currency TEXT NOT NULL, status TEXT NOT NULL, custom_id TEXT, invoice_id TEXT, note TEXT,
    created_us INTEGER NOT NULL, updated_us INTEGER NOT NULL, visible_us INTEGER NOT NULL,
    fails_on_look INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX IF NOT EXISTS refunds_of_capture ON refunds (capture_id);
CREATE TABLE IF NOT EXISTS request_ids (
    request_id TEXT PRIMARY KEY, refund_id TEXT NOT NULL, at_us INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS effects (
    seq INTEGER PRIMARY KEY, refund_id TEXT NOT NULL, payment_id TEXT NOT NULL, amount TEXT NOT NULL,
    currency TEXT NOT NULL, idempotency_key TEXT, operation_id TEXT, at_us INTEGER NOT NULL) STRICT;
CREATE TRIGGER IF NOT EXISTS effects_no_update BEFORE UPDATE ON effects BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER IF NOT EXISTS effects_no_delete BEFORE DELETE ON effects BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TABLE IF NOT EXISTS requests (
    seq INTEGER PRIMARY KEY, method TEXT NOT NULL, path TEXT NOT NULL, operation TEXT, idempotency_key TEXT,
    done TEXT NOT NULL, status INTEGER, at_us INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS faults (
    seq INTEGER PRIMARY KEY, operation TEXT NOT NULL, payment_id TEXT, do TEXT NOT NULL, times INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS certificates (name TEXT PRIMARY KEY, root TEXT NOT NULL, leaf TEXT NOT NULL,
    key TEXT NOT NULL) STRICT;
"""


def open_state(directory: Path, now_us: Callable[[], int] = wall_clock_us) -> State:
    """Opens (or creates) `paypal.sqlite3` under `directory`. Raises OSError or sqlite3.Error when it cannot."""
    directory.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(directory / "paypal.sqlite3", isolation_level=None, check_same_thread=False)
    db.row_factory = sqlite3.Row
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("PRAGMA busy_timeout=2000")
    db.executescript(SCHEMA)
    return State(db, now_us)
