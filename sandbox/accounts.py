"""What the store knows beside orders: customers' accounts and credits, parcels, and refunds that are only drafted."""

import json
import sqlite3
from typing import Any

from sandbox import orders
from sandbox.models import Shipment
from sandbox.orders import Record
from sandbox.state import State, to_iso
from sandbox.stripe_shapes import new_id

DEFAULT_CURRENCY, DEFAULT_TIER = "USD", "standard"
_CARRIER = "Sample Parcel"
_STATES = {"shipped": "in_transit", "delivered": "delivered"}


def get_account(state: State, customer_id: str) -> Record | None:
    """A customer's standing, without a word of who they are."""
    customer = orders.get_customer(state, customer_id)
    if customer is None:
        return None
    row = state.db.execute(
        "SELECT count(*) FILTER (WHERE status = 'open') AS open, min(placed_us) AS first FROM orders"
        " WHERE customer_id = ?",
        (customer_id,),
    ).fetchone()
    since = customer.get("since") or (to_iso(row["first"]) if row["first"] is not None else None)
    return {
        "customer_id": customer_id,
        "since": since,
        "tier": customer.get("tier", DEFAULT_TIER),
        "currency": customer.get("currency", DEFAULT_CURRENCY),
        "credit_cents": _balance(state, customer_id),
        "open_orders": row["open"],
        "fraud_flag": customer["fraud_flag"],
    }


def _balance(state: State, customer_id: str) -> int:
    row = state.db.execute("SELECT coalesce(sum(amount), 0) FROM credits WHERE customer_id = ?", (customer_id,))
    return row.fetchone()[0]


def add_credit(state: State, customer_id: str, amount: int, reason: str | None, operation_id: str | None) -> Record:
    """Gives an existing customer store credit, in their account's currency. Call in a transaction."""
    account = get_account(state, customer_id)
    assert account is not None
    credit: Record = {
        "credit_id": new_id("crd"),
        "customer_id": customer_id,
        "amount_cents": amount,
        "currency": account["currency"],
        "reason": reason,
        "operation_id": operation_id,
        "balance_cents": account["credit_cents"] + amount,
        "at": to_iso(state.now_us()),
    }
    state.db.execute(
        "INSERT INTO credits (customer_id, amount, operation_id, line) VALUES (?, ?, ?, ?)",
        (customer_id, amount, operation_id, json.dumps(credit)),
    )
    return credit


def list_credits(state: State, customer_id: str, operation_id: str | None) -> list[Record]:
    """A customer's credits, oldest first; of one operation where that is given."""
    return _lines(
        state.db.execute(
            "SELECT line FROM credits WHERE customer_id = ?1 AND (?2 IS NULL OR operation_id = ?2) ORDER BY seq",
            (customer_id, operation_id),
        )
    )


def put_shipment(state: State, shipment: Shipment) -> None:
    state.db.execute(
        "INSERT OR REPLACE INTO shipments VALUES (?, ?)", (shipment.tracking_id, shipment.model_dump_json())
    )


def get_shipment(state: State, tracking_id: str) -> Record | None:
    """The parcel; of one that nobody laid in, what the order that names it says of its way."""
    row = state.db.execute("SELECT line FROM shipments WHERE tracking_id = ?", (tracking_id,)).fetchone()
    if row is not None:
        return json.loads(row["line"])
    row = state.db.execute(
        "SELECT line FROM orders WHERE EXISTS (SELECT 1 FROM json_each(line, '$.tracking_ids') WHERE value = ?)",
        (tracking_id,),
    ).fetchone()
    return None if row is None else _derived(json.loads(row["line"]), tracking_id)


def _derived(order: Record, tracking_id: str) -> Record:
    reached = _STATES.get(order["status"], "label_created")
    events = [{"at": order["placed_at"], "state": "label_created", "place": "Sampletown"}]
    return {
        "tracking_id": tracking_id,
        "order_id": order["order_id"],
        "carrier": _CARRIER,
        "state": reached,
        "events": events,
        "note": None,
    }


def add_draft(state: State, order: Record, wanted: Record, operation_id: str | None) -> Record:
    """Writes a refund of an existing order down; no money moves. Call in a transaction."""
    draft: Record = {
        "draft_id": f"rfd_{new_id('x')[2:14]}",
        "order_id": order["order_id"],
        "customer_id": order["customer_id"],
        **wanted,
        "operation_id": operation_id,
        "created_at": to_iso(state.now_us()),
    }
    state.db.execute(
        "INSERT INTO refund_drafts VALUES (?, ?, ?, ?)",
        (draft["draft_id"], order["order_id"], operation_id, json.dumps(draft)),
    )
    return draft


def get_draft(state: State, draft_id: str) -> Record | None:
    row = state.db.execute("SELECT line FROM refund_drafts WHERE draft_id = ?", (draft_id,)).fetchone()
    return None if row is None else json.loads(row["line"])


def list_drafts(state: State, operation_id: str) -> list[Record]:
    """The drafts of one operation."""
    return _lines(state.db.execute("SELECT line FROM refund_drafts WHERE operation_id = ?", (operation_id,)))


def _lines(rows: sqlite3.Cursor) -> list[dict[str, Any]]:
    return [json.loads(row["line"]) for row in rows.fetchall()]
