"""Orders and customers as rows, and what of them the gateway knows: payments and earlier refunds."""

import json
import sqlite3
from typing import Any, Literal

from sandbox.models import Address, Customer, Order
from sandbox.state import State, to_iso, to_us

Record = dict[str, Any]
OperationKind = Literal["cancel", "reinstate", "shipping_address", "reset"]


class OrderConflictError(Exception):
    """A payment or refund id of this order belongs to another order already. The message names it."""


def put_customer(state: State, customer: Customer) -> None:
    state.db.execute(
        "INSERT OR REPLACE INTO customers VALUES (?, ?)",
        (customer.customer_id, customer.model_dump_json(exclude_none=True)),
    )


def get_customer(state: State, customer_id: str) -> Record | None:
    row = state.db.execute("SELECT line FROM customers WHERE customer_id = ?", (customer_id,)).fetchone()
    return None if row is None else json.loads(row["line"])


def put_order(state: State, order: Order) -> None:
    """Creates or replaces an order with its payments and earlier refunds; refunds made since stay.

    Call in a transaction. Raises OrderConflictError when one of its ids is another order's.
    """
    state.db.execute(
        "INSERT INTO orders VALUES (?, ?, ?, ?, 1, ?) ON CONFLICT (order_id) DO UPDATE SET"
        " customer_id = excluded.customer_id, placed_us = excluded.placed_us,"
        " status = excluded.status, line = excluded.line, version = version + 1",
        (order.order_id, order.customer_id, to_us(order.placed_at), order.status, order.model_dump_json()),
    )
    state.db.execute("INSERT OR REPLACE INTO order_originals VALUES (?, ?)", (order.order_id, order.model_dump_json()))
    old = [
        row["payment_id"]
        for row in state.db.execute("SELECT payment_id FROM payments WHERE order_id = ?", (order.order_id,))
    ]
    state.db.executemany("DELETE FROM refunds WHERE payment_id = ? AND source = 'order'", [(each,) for each in old])
    state.db.execute("DELETE FROM payments WHERE order_id = ?", (order.order_id,))
    _put_payments(state, order)


def _put_payments(state: State, order: Order) -> None:
    own = {payment.payment_id for payment in order.payments}
    placed_us = to_us(order.placed_at)
    try:
        state.db.executemany(
            "INSERT INTO payments VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    p.payment_id,
                    order.order_id,
                    p.method,
                    p.captured_cents,
                    order.currency,
                    placed_us,
                    order.disputed,
                )
                for p in order.payments
            ],
        )
        for refund in order.refunds:
            if refund.payment_id not in own:
                raise OrderConflictError(f"refund {refund.refund_id} is of a payment that the order does not have")
            at = to_us(refund.refunded_at)
            state.db.execute(
                "INSERT INTO refunds (refund_id, payment_id, amount, currency, status, metadata, source, created_us,"
                " visible_us) VALUES (?, ?, ?, ?, 'succeeded', '{}', 'order', ?, ?)",
                (refund.refund_id, refund.payment_id, refund.amount_cents, order.currency, at, at),
            )
    except sqlite3.IntegrityError as error:
        raise OrderConflictError("a payment or refund id of this order is already taken") from error


def get_order_line(state: State, order_id: str) -> Record | None:
    """The order as a line of `orders.jsonl`, as it is now."""
    row = state.db.execute("SELECT line FROM orders WHERE order_id = ?", (order_id,)).fetchone()
    return None if row is None else json.loads(row["line"])


def get_order(state: State, order_id: str) -> Record | None:
    """The order as the shop's API shows it: its line, `version` and the `operations` done to it, oldest first."""
    row = state.db.execute("SELECT * FROM orders WHERE order_id = ?", (order_id,)).fetchone()
    return None if row is None else _shown(state, row)


def _shown(state: State, row: sqlite3.Row) -> Record:
    done = state.db.execute("SELECT * FROM operations WHERE order_id = ? ORDER BY seq", (row["order_id"],))
    operations = [
        {"operation_id": each["operation_id"], "kind": each["kind"], "at": to_iso(each["at_us"])} for each in done
    ]
    return {**json.loads(row["line"]), "version": row["version"], "operations": operations}


def list_orders(state: State, customer_id: str, limit: int) -> tuple[list[Record], int]:
    """The customer's orders, newest first, at most `limit`, and how many there are in all."""
    rows = state.db.execute(
        "SELECT * FROM orders WHERE customer_id = ? ORDER BY placed_us DESC, order_id LIMIT ?", (customer_id, limit)
    ).fetchall()
    total = state.db.execute("SELECT count(*) FROM orders WHERE customer_id = ?", (customer_id,)).fetchone()[0]
    return [_shown(state, row) for row in rows], total


def change_order(
    state: State, order_id: str, kind: OperationKind, operation_id: str | None, change: dict[str, str | Address]
) -> Record:
    """Applies field changes to an existing order, bumps its version, records the operation. Call in a transaction."""
    row = state.db.execute("SELECT line FROM orders WHERE order_id = ?", (order_id,)).fetchone()
    order = Order.model_validate_json(row["line"]).model_copy(update=change)
    return _replace(state, order, kind, operation_id)


def reset_order(state: State, order_id: str, operation_id: str | None) -> Record:
    """Gives an existing order back the state and the address it was laid in with. Call in a transaction."""
    row = state.db.execute(
        "SELECT coalesce(o.line, c.line) AS line FROM orders c LEFT JOIN order_originals o USING (order_id)"
        " WHERE c.order_id = ?",
        (order_id,),
    ).fetchone()
    return _replace(state, Order.model_validate_json(row["line"]), "reset", operation_id)


def _replace(state: State, order: Order, kind: OperationKind, operation_id: str | None) -> Record:
    order_id = order.order_id
    state.db.execute(
        "UPDATE orders SET status = ?, line = ?, version = version + 1 WHERE order_id = ?",
        (order.status, order.model_dump_json(), order_id),
    )
    state.db.execute(
        "INSERT INTO operations (order_id, operation_id, kind, at_us) VALUES (?, ?, ?, ?)",
        (order_id, operation_id, kind, state.now_us()),
    )
    shown = get_order(state, order_id)
    assert shown is not None
    return shown
