"""What the store starts with, the lines of a folder or the demo orders, and what the helpdesk does.

What the data directory has stays as it is.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from sandbox import demo_support
from sandbox.accounts import put_shipment
from sandbox.demo_orders import demo_customers, demo_orders
from sandbox.helpdesk import put_article, put_ticket
from sandbox.models import Customer, Order, describe
from sandbox.orders import OrderConflictError, put_customer, put_order
from sandbox.state import State

T = TypeVar("T", Customer, Order)


class LoadError(Exception):
    """A line that cannot be loaded. The message is one line that names the file and the line."""


def load_demo(state: State) -> None:
    """Loads the demo orders with their parcels and tickets, dated back from now."""
    now = _now(state)
    with state.transaction():
        _add_articles(state)
        parcels = _known(state, "SELECT tracking_id FROM shipments")
        for shipment in demo_support.shipments(now):
            if shipment.tracking_id not in parcels:
                put_shipment(state, shipment)
        tickets = _known(state, "SELECT ticket_id FROM tickets")
        for ticket in demo_support.tickets():
            if ticket.id not in tickets:
                put_ticket(state, ticket)
        _add_customers(state, demo_customers())
        _add_orders(state, demo_orders(now))


def load_folder(state: State, folder: Path) -> None:
    """Loads `customers.jsonl` and `orders.jsonl` of a folder, and the help centre; all or nothing. Raises LoadError."""
    customers, orders = folder / "customers.jsonl", folder / "orders.jsonl"
    with state.transaction():
        _add_articles(state)
        _add_customers(state, (customer for _, customer in _lines(customers, Customer)))
        known = _known(state, "SELECT order_id FROM orders")
        seen: set[str] = set()
        for number, order in _lines(orders, Order):
            if order.order_id in seen:
                raise LoadError(f"{orders}:{number}: order_id appears twice")
            seen.add(order.order_id)
            if order.order_id in known:
                continue
            try:
                put_order(state, order)
            except OrderConflictError as error:
                raise LoadError(f"{orders}:{number}: {error}") from error


def _now(state: State) -> datetime:
    return datetime.fromtimestamp(state.now_us() // 1_000_000, UTC)


def _add_articles(state: State) -> None:
    known = _known(state, "SELECT article_id FROM articles")
    for article in demo_support.articles(_now(state)):
        if article.id not in known:
            put_article(state, article)


def _add_customers(state: State, customers: Iterable[Customer]) -> None:
    known = _known(state, "SELECT customer_id FROM customers")
    for customer in customers:
        if customer.customer_id not in known:
            put_customer(state, customer)


def _add_orders(state: State, orders: Iterable[Order]) -> None:
    known = _known(state, "SELECT order_id FROM orders")
    for order in orders:
        if order.order_id not in known:
            put_order(state, order)


def _known(state: State, query: str) -> set[Any]:
    return {row[0] for row in state.db.execute(query)}


def _lines(path: Path, model: type[T]) -> Iterator[tuple[int, T]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"{path}: cannot be read as UTF-8 text") from error
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield number, model.model_validate_json(line)
        except ValidationError as error:
            raise LoadError(f"{path}:{number}: {describe(error)}") from error
