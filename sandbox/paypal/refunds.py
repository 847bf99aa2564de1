"""Captures and their refunds on the state; the record of effects. Call in a transaction."""

import sqlite3
from dataclasses import dataclass
from typing import Any, Literal

from sandbox.paypal import shapes
from sandbox.paypal.shapes import RELEASED, Capture, Refund, Shape
from sandbox.state import State, to_iso

FinalStatus = Literal["COMPLETED", "FAILED", "CANCELLED"]
KEPT_US = 45 * 86_400 * 1_000_000


@dataclass(frozen=True)
class Wanted:
    """What a refund was asked for; without an `amount` all that is left."""

    capture_id: str
    amount: int | None
    currency: str | None
    custom_id: str | None = None
    invoice_id: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Twist:
    """How a created refund differs from an ordinary one, when a fault says so."""

    status: Literal["COMPLETED", "PENDING"] = "COMPLETED"
    fails_on_look: bool = False
    hidden_us: int = 0


ORDINARY = Twist()


def create(state: State, wanted: Wanted, request_id: str | None, twist: Twist = ORDINARY) -> Refund:
    """Refunds through the API and records the effect. Raises PayPalError."""
    made = _insert(state, wanted, twist)
    value = shapes.money(made.amount, made.currency)["value"]
    now = state.now_us()
    state.db.execute(
        "INSERT INTO effects (refund_id, payment_id, amount, currency, idempotency_key, operation_id, at_us)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (made.refund_id, made.capture_id, value, made.currency, request_id, made.custom_id, now),
    )
    if request_id is not None:
        state.db.execute("INSERT OR REPLACE INTO request_ids VALUES (?, ?, ?)", (request_id, made.refund_id, now))
    return made


def create_in_dashboard(state: State, capture_id: str, value: str) -> Refund:
    """A refund that a person made at PayPal: without ids of a caller, no effect of the API. Raises PayPalError."""
    found = capture(state, capture_id)
    return _insert(state, Wanted(capture_id, shapes.smallest_units(value, found.currency), found.currency), ORDINARY)


def by_request_id(state: State, request_id: str) -> Refund | None:
    """The refund that an earlier request with this id made, as it stands now; ids are kept for 45 days."""
    row = state.db.execute(
        "SELECT refund_id FROM request_ids WHERE request_id = ? AND at_us > ?", (request_id, state.now_us() - KEPT_US)
    ).fetchone()
    return None if row is None else look(state, row["refund_id"])


def look(state: State, refund_id: str) -> Refund:
    """One refund; one that was to fail when looked at has failed by then. Raises PayPalError."""
    row = state.db.execute("SELECT * FROM refunds WHERE refund_id = ?", (refund_id,)).fetchone()
    if row is None:
        raise shapes.missing()
    return set_status(state, refund_id, "FAILED") if row["fails_on_look"] else _refund(row)


def of_order(state: State, order_id: str) -> list[Refund]:
    """The visible refunds of an order's captures, as they are after being looked at; in no promised order."""
    rows = state.db.execute(
        "SELECT refund_id FROM refunds WHERE capture_id IN (SELECT capture_id FROM captures WHERE order_id = ?)"
        " AND visible_us <= ? ORDER BY seq",
        (order_id, state.now_us()),
    ).fetchall()
    return [look(state, row["refund_id"]) for row in rows]


def set_status(state: State, refund_id: str, status: FinalStatus) -> Refund:
    """A late change. Failed and cancelled give the money back; to take it again there must be enough left.

    Raises PayPalError.
    """
    row = state.db.execute("SELECT * FROM refunds WHERE refund_id = ?", (refund_id,)).fetchone()
    if row is None:
        raise shapes.missing()
    if status not in RELEASED and row["status"] in RELEASED:
        _refundable(state, capture(state, row["capture_id"]), row["amount"])
    state.db.execute(
        "UPDATE refunds SET status = ?, fails_on_look = 0, updated_us = ? WHERE refund_id = ?",
        (status, state.now_us(), refund_id),
    )
    return look(state, refund_id)


def put_capture(state: State, found: Capture) -> None:
    state.db.execute(
        "INSERT OR REPLACE INTO captures VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            found.capture_id,
            found.order_id,
            found.method,
            found.amount,
            found.currency,
            found.pending,
            found.disputed,
            found.created_us,
        ),
    )


def capture(state: State, capture_id: str) -> Capture:
    """Raises PayPalError."""
    row = state.db.execute("SELECT * FROM captures WHERE capture_id = ?", (capture_id,)).fetchone()
    if row is None:
        raise shapes.missing()
    return _capture(row)


def captures_of_order(state: State, order_id: str) -> list[Capture]:
    """Raises PayPalError when there is no such order."""
    rows = state.db.execute("SELECT * FROM captures WHERE order_id = ? ORDER BY capture_id", (order_id,)).fetchall()
    if not rows:
        raise shapes.missing()
    return [_capture(row) for row in rows]


def refunded(state: State, capture_id: str) -> int:
    query = "SELECT coalesce(sum(amount), 0) FROM refunds WHERE capture_id = ? AND status NOT IN (?, ?)"
    return state.db.execute(query, (capture_id, *RELEASED)).fetchone()[0]


def effects(state: State) -> list[dict[str, Any]]:
    """Every refund that the API really made, with its status now."""
    rows = state.db.execute("SELECT e.*, r.status FROM effects e JOIN refunds r USING (refund_id) ORDER BY e.seq")
    names = ("refund_id", "payment_id", "amount", "currency", "idempotency_key", "operation_id", "status")
    return [{**{name: row[name] for name in names}, "at": to_iso(row["at_us"])} for row in rows]


def shape(state: State, base: str, found: Refund) -> Shape:
    return shapes.refund(base, found, refunded(state, found.capture_id))


def _insert(state: State, wanted: Wanted, twist: Twist) -> Refund:
    found = capture(state, wanted.capture_id)
    if wanted.currency is not None and wanted.currency != found.currency:
        raise shapes.unprocessable("REFUND_CAPTURE_CURRENCY_MISMATCH")
    amount = _refundable(state, found, wanted.amount)
    refund_id, now = shapes.new_id(), state.now_us()
    state.db.execute(
        "INSERT INTO refunds (refund_id, capture_id, amount, currency, status, custom_id, invoice_id, note, created_us,"
        " updated_us, visible_us, fails_on_look) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            refund_id,
            wanted.capture_id,
            amount,
            found.currency,
            twist.status,
            wanted.custom_id,
            wanted.invoice_id,
            wanted.note,
            now,
            now,
            now + twist.hidden_us,
            twist.fails_on_look,
        ),
    )
    return _refund(state.db.execute("SELECT * FROM refunds WHERE refund_id = ?", (refund_id,)).fetchone())


def _refundable(state: State, found: Capture, amount: int | None) -> int:
    """The amount to refund (all that is left when None). Raises PayPalError when the capture does not have it."""
    if found.pending:
        raise shapes.unprocessable("PENDING_CAPTURE")
    left = found.amount - refunded(state, found.capture_id)
    if left <= 0:
        raise shapes.unprocessable("CAPTURE_FULLY_REFUNDED")
    if amount is not None and amount > left:
        raise shapes.unprocessable("REFUND_AMOUNT_EXCEEDED")
    # "Partial refunds cannot be offered at this time because there is an open case on this transaction."
    if found.disputed and amount is not None and amount < found.amount:
        raise shapes.unprocessable("TRANSACTION_DISPUTED")
    return left if amount is None else amount


def _capture(row: sqlite3.Row) -> Capture:
    return Capture(
        capture_id=row["capture_id"],
        order_id=row["order_id"],
        method=row["method"],
        amount=row["amount"],
        currency=row["currency"],
        pending=bool(row["pending"]),
        disputed=bool(row["disputed"]),
        created_us=row["created_us"],
    )


def _refund(row: sqlite3.Row) -> Refund:
    return Refund(
        refund_id=row["refund_id"],
        capture_id=row["capture_id"],
        amount=row["amount"],
        currency=row["currency"],
        status=row["status"],
        custom_id=row["custom_id"],
        invoice_id=row["invoice_id"],
        note=row["note"],
        created_us=row["created_us"],
        updated_us=row["updated_us"],
    )
