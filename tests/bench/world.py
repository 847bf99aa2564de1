"""The shop that is measured in: customers with five delivered orders each, and the policy without its ceilings."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from policy.load import DEFAULT_POLICY

ORDERS_EACH = 5
"""Orders of a customer: as many as a run may refund."""
PAID = 50_000
"""Minor units that each order was paid with."""
_RAISED = 100_000
_ADDRESS = {"line1": "1 Example Street", "city": "Exampletown", "region": "EX", "postal_code": "00000", "country": "US"}


def customer(number: int) -> str:
    return f"cus_{number:012}"


def order(number: int) -> str:
    return f"ord_{number:012}"


def payment(number: int) -> str:
    return f"pay_{number:012}"


def write_store(folder: Path, orders: int) -> None:
    """`customers.jsonl` and `orders.jsonl` as the sandbox loads them."""
    folder.mkdir(parents=True)
    placed = (datetime.now(UTC) - timedelta(days=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
    _write(folder / "customers.jsonl", (_customer(n) for n in range(-(-orders // ORDERS_EACH))))
    _write(folder / "orders.jsonl", (_order(n, placed) for n in range(orders)))


def write_policy(path: Path) -> None:
    """The default policy; what it caps of a tool, an agent or the tenant lies beyond any measurement. Every check, sum
    and limit is still asked."""
    policy: dict[str, Any] = yaml.safe_load(DEFAULT_POLICY.read_text())
    policy["defaults"]["parked"] = {"per_agent": 1_000_000, "per_tenant": 1_000_000}
    for tool in policy["tools"].values():
        for limit in tool.get("limits", []):
            if limit["per"] in ("tool", "tenant", "agent"):
                limit["max"] *= _RAISED
        if "breaker" in tool:
            tool["breaker"]["max"] *= _RAISED
    path.write_text(yaml.safe_dump(policy, sort_keys=False))


def _customer(number: int) -> dict[str, Any]:
    return {"customer_id": customer(number), "name": f"Example Person {number}", "email": f"p{number}@example.com"}


def _order(number: int, placed: str) -> dict[str, Any]:
    return {
        "order_id": order(number),
        "customer_id": customer(number // ORDERS_EACH),
        "status": "delivered",
        "placed_at": placed,
        "currency": "USD",
        "items": [{"item_id": "1", "name": "Lamp", "quantity": 1, "price_cents": PAID, "options": {}}],
        "payments": [{"payment_id": payment(number), "method": "card", "captured_cents": PAID}],
        "shipping_address": _ADDRESS,
    }


def _write(path: Path, lines: Iterator[dict[str, Any]]) -> None:
    with path.open("w") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)
