"""What the examples stand on: a running stack (`counterseal up --ready-file ready.json`), an order in its sandbox, and
a person who decides. Every example takes the ready file as its argument."""

import json
import secrets
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx


@dataclass(frozen=True)
class Shop:
    """`ready` is the content of the ready file."""

    ready: dict[str, Any]
    customer_id: str
    order_id: str

    @property
    def api(self) -> str:
        return self.ready["api"]

    @property
    def service_token(self) -> str:
        return self.ready["service_token"]

    def refund(self, cents: int) -> dict[str, Any]:
        """Arguments of `issue_refund`, as a model would choose them."""
        return {"order_id": self.order_id, "amount_cents": cents, "currency": "USD", "reason_code": "damaged"}

    def a_person_approves(self) -> None:
        """In the example's stead: people do that in the web form at the address of the API."""
        while not (found := self.waiting()):
            time.sleep(0.2)
        (waiting,) = found
        httpx.post(
            f"{self.api}/v1/approvals/{waiting['approval_id']}/decision",
            headers=self._approver(),
            trust_env=False,
            json={"decision": "approve", "action_digest": waiting["action_digest"], "reason": "it is broken"},
        ).raise_for_status()

    def waiting(self) -> list[dict[str, Any]]:
        """What of this customer's waits for a person, as people see it."""
        page = httpx.get(
            f"{self.api}/v1/approvals", params={"limit": 500}, headers=self._approver(), trust_env=False
        ).json()
        return [each for each in page["approvals"] if each["customer_id"] == self.customer_id]

    def _approver(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.ready['approvers'][0]['token']}"}


def a_shop() -> Shop:
    """The stack of the ready file, with a new customer who has one delivered order."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} READY_FILE")
    ready = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    mark = secrets.token_hex(6)
    customer_id, order_id = f"cus_{mark}", f"ord_{mark}"
    customer: dict[str, Any] = {"customer_id": customer_id, "name": "Example Person", "email": "person@example.com"}
    customer["fraud_flag"] = False
    order: dict[str, Any] = {
        "order_id": order_id,
        "customer_id": customer_id,
        "status": "delivered",
        "placed_at": (datetime.now(UTC) - timedelta(days=10)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "currency": "USD",
        "items": [{"item_id": "1", "name": "Lamp", "quantity": 1, "price_cents": 90_000, "options": {}}],
        "payments": [{"payment_id": f"pay_{mark}", "method": "card", "captured_cents": 90_000}],
        "refunds": [],
        "disputed": False,
        "shipping_address": {
            "line1": "1 Example Street",
            "line2": None,
            "city": "Exampletown",
            "region": "EX",
            "postal_code": "00000",
            "country": "US",
        },
        "tracking_ids": [],
    }
    store = ready["sandbox"]["store"]
    for path, content in ((f"_customers/{customer_id}", customer), (f"_orders/{order_id}", order)):
        httpx.put(f"{store}/{path}", json=content, trust_env=False).raise_for_status()
    return Shop(ready, customer_id, order_id)
