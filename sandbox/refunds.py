"""The gateway's endpoints on the state: refunds, charges and payment intents; the record of effects.

Each change is one transaction with the events that tell of it.
"""

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from sandbox import stripe_shapes
from sandbox.params import ListParams, RefundParams
from sandbox.state import State, to_iso
from sandbox.stripe_shapes import RELEASED, Payment, Shape, StripeError, missing, new_id
from sandbox.webhooks import events
from sandbox.webhooks.events import Cause

OPERATION_METADATA = "counterseal_operation"
_END = (2**62, 0)
_LIST_ALL = (
    "SELECT * FROM refunds WHERE visible_us <= ? AND created_us >= ? AND created_us < ? AND (created_us, seq) < (?, ?)"
    " ORDER BY created_us DESC, seq DESC LIMIT ?"
)
_LIST_OF_PAYMENT = (
    "SELECT * FROM refunds WHERE payment_id = ? AND visible_us <= ? AND created_us >= ? AND created_us < ?"
    " AND (created_us, seq) < (?, ?)"
    " ORDER BY created_us DESC, seq DESC LIMIT ?"
)
FinalStatus = Literal["failed", "succeeded", "canceled"]


@dataclass(frozen=True)
class Twist:
    """How a created refund differs from an ordinary one, when a fault says so."""

    status: Literal["succeeded", "pending"] = "succeeded"
    fails_on_look: bool = False
    hidden_us: int = 0


ORDINARY = Twist()


def create(state: State, params: RefundParams, cause: Cause, twist: Twist = ORDINARY) -> Shape:
    """Refunds through the API and records the effect. Call in a transaction. Raises StripeError."""
    payment = _payment(state, params.payment_id, params.named, params.named)
    amount = _refundable(state, payment, params.amount)
    before = _charge(state, payment)
    now = state.now_us()
    refund_id = new_id("re")
    state.db.execute(
        "INSERT INTO refunds (refund_id, payment_id, amount, currency, status, reason, metadata, source, created_us,"
        " visible_us, fails_on_look) VALUES (?, ?, ?, ?, ?, ?, ?, 'api', ?, ?, ?)",
        (
            refund_id,
            params.payment_id,
            amount,
            payment.currency,
            twist.status,
            params.reason,
            json.dumps(params.metadata),
            now,
            now + twist.hidden_us,
            twist.fails_on_look,
        ),
    )
    state.db.execute(
        "INSERT INTO effects (refund_id, payment_id, amount, currency, idempotency_key, operation_id, at_us)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            refund_id,
            params.payment_id,
            amount,
            payment.currency,
            cause.key,
            params.metadata.get(OPERATION_METADATA),
            now,
        ),
    )
    return _created(state, refund_id, payment, before, cause)


def create_in_dashboard(state: State, payment_id: str, amount: int) -> Shape:
    """A refund that a person made at the gateway: no metadata, no effect of the API. Raises StripeError."""
    payment = _payment(state, payment_id, "charge", "payment_id")
    amount = _refundable(state, payment, amount)
    before = _charge(state, payment)
    refund_id, now = new_id("re"), state.now_us()
    state.db.execute(
        "INSERT INTO refunds (refund_id, payment_id, amount, currency, status, metadata, source, created_us,"
        " visible_us) VALUES (?, ?, ?, ?, 'succeeded', '{}', 'dashboard', ?, ?)",
        (refund_id, payment_id, amount, payment.currency, now, now),
    )
    return _created(state, refund_id, payment, before, Cause(new_id("req")))


def _created(state: State, refund_id: str, payment: Payment, before: Shape, cause: Cause) -> Shape:
    refund = _shape(_row(state, refund_id))
    events.refund_created(state, refund, before, _charge(state, payment), cause)
    return refund


def set_status(state: State, refund_id: str, status: FinalStatus) -> Shape:
    """A late change. Failed and canceled give the money back; to take it again there must be enough left.

    Raises StripeError.
    """
    row = _row(state, refund_id)
    if status not in RELEASED and row["status"] in RELEASED:
        _refundable(state, _payment(state, row["payment_id"], "charge", "charge"), row["amount"])
    state.db.execute("UPDATE refunds SET status = ?, fails_on_look = 0 WHERE refund_id = ?", (status, refund_id))
    changed = _shape(_row(state, refund_id))
    events.refund_changed(state, _shape(row), changed)
    return changed


def complete_pending(state: State, status: FinalStatus, payment_id: str | None) -> list[Shape]:
    """All pending refunds (of one payment, if named) come to their end. Call in a transaction."""
    rows = state.db.execute(
        "SELECT refund_id FROM refunds WHERE status = 'pending' AND payment_id = coalesce(?, payment_id) ORDER BY seq",
        (payment_id,),
    ).fetchall()
    return [set_status(state, row["refund_id"], status) for row in rows]


def get_refund(state: State, refund_id: str) -> Shape:
    """One refund, as it is after being looked at. Raises StripeError."""
    return _look(state, [_row(state, refund_id)])[0]


def list_refunds(state: State, params: ListParams) -> Shape:
    """A page of refunds, newest first. One that becomes visible later is left out until then. Raises StripeError."""
    before = _END
    if params.starting_after is not None:
        after = _row(state, params.starting_after, "starting_after")
        before = (after["created_us"], after["seq"])
    created = (params.created_from * 1_000_000, params.created_before * 1_000_000)
    window = (state.now_us(), *created, *before, params.limit + 1)
    if params.payment_id is None:
        rows = state.db.execute(_LIST_ALL, window).fetchall()
    else:
        _payment(state, params.payment_id, params.named or "charge", params.named or "charge")
        rows = state.db.execute(_LIST_OF_PAYMENT, (params.payment_id, *window)).fetchall()
    return stripe_shapes.page(_look(state, rows[: params.limit]), len(rows) > params.limit)


def get_charge(state: State, payment_id: str) -> Shape:
    """Raises StripeError."""
    return _charge(state, _payment(state, payment_id, "charge", "id"))


def get_payment_intent(state: State, payment_id: str) -> Shape:
    """Raises StripeError."""
    return stripe_shapes.payment_intent(_payment(state, payment_id, "payment_intent", "intent"))


def payment_of_refund(state: State, refund_id: str) -> str | None:
    row = state.db.execute("SELECT payment_id FROM refunds WHERE refund_id = ?", (refund_id,)).fetchone()
    return None if row is None else row["payment_id"]


def effects(state: State) -> list[dict[str, Any]]:
    """Every refund that happened through the API, in order, with the status it has now."""
    rows = state.db.execute("SELECT e.*, r.status FROM effects e JOIN refunds r USING (refund_id) ORDER BY e.seq")
    names = ("refund_id", "payment_id", "amount", "currency", "idempotency_key", "operation_id", "status")
    return [{**{name: row[name] for name in names}, "at": to_iso(row["at_us"])} for row in rows]


def _payment(state: State, payment_id: str, what: str, param: str) -> Payment:
    row = state.db.execute("SELECT * FROM payments WHERE payment_id = ?", (payment_id,)).fetchone()
    if row is None:
        raise missing(what, payment_id, param)
    return Payment(
        payment_id=payment_id,
        order_id=row["order_id"],
        method=row["method"],
        amount=row["amount"],
        currency=row["currency"],
        created=row["created_us"] // 1_000_000,
        disputed=bool(row["disputed"]),
    )


def _charge(state: State, payment: Payment) -> Shape:
    return stripe_shapes.charge(payment, _refunded(state, payment.payment_id))


def _refunded(state: State, payment_id: str) -> int:
    query = "SELECT coalesce(sum(amount), 0) FROM refunds WHERE payment_id = ? AND status NOT IN (?, ?)"
    return state.db.execute(query, (payment_id, *RELEASED)).fetchone()[0]


def _refundable(state: State, payment: Payment, amount: int | None) -> int:
    """The amount to refund (all that is left when None). Raises StripeError when the charge does not have it."""
    if payment.disputed:
        message = f"Charge {payment.payment_id} has been charged back; cannot issue a refund."
        raise StripeError(400, message, code="charge_disputed")
    left = payment.amount - _refunded(state, payment.payment_id)
    if left <= 0:
        raise stripe_shapes.already_refunded(payment.payment_id)
    if amount is not None and amount > left:
        wanted, rest = stripe_shapes.money(amount, payment.currency), stripe_shapes.money(left, payment.currency)
        message = f"Refund amount ({wanted}) is greater than unrefunded amount on charge ({rest})"
        raise StripeError(400, message, param="amount")
    return left if amount is None else amount


def _row(state: State, refund_id: str, param: str = "id") -> sqlite3.Row:
    row = state.db.execute("SELECT * FROM refunds WHERE refund_id = ?", (refund_id,)).fetchone()
    if row is None:
        raise missing("refund", refund_id, param)
    return row


def _look(state: State, rows: Iterable[sqlite3.Row]) -> list[Shape]:
    """What a caller sees of these refunds; one that was to fail when looked at has failed by then."""
    shapes: list[Shape] = []
    for row in rows:
        if row["fails_on_look"]:
            shapes.append(set_status(state, row["refund_id"], "failed"))
        else:
            shapes.append(_shape(row))
    return shapes


def _shape(row: sqlite3.Row) -> Shape:
    return stripe_shapes.refund(
        row["refund_id"],
        row["payment_id"],
        row["amount"],
        row["currency"],
        row["status"],
        row["reason"],
        json.loads(row["metadata"]),
        row["created_us"] // 1_000_000,
    )
