"""A running sandbox process and what tests ask of it."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

GATEWAY_KEY, STORE_KEY, HELPDESK_KEY = "gateway-key-for-tests", "store-key-for-tests", "helpdesk-key-for-tests"
KEYS = {"SANDBOX_GATEWAY_KEY": GATEWAY_KEY, "SANDBOX_STORE_KEY": STORE_KEY, "SANDBOX_HELPDESK_KEY": HELPDESK_KEY}


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "sandbox", *arguments],
        env={**os.environ, **KEYS, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class World:
    """The sandbox on a data directory, with a client for each of its three apps."""

    def __init__(self, data: Path, *arguments: str, **environment: str) -> None:
        self.data = data
        self.arguments = arguments
        self.environment = environment
        self.start()

    def start(self) -> None:
        self.ready_file = self.data.with_name(f"{self.data.name}.ready.json")
        self.ready_file.unlink(missing_ok=True)
        paths = ("--data", str(self.data), "--ready-file", str(self.ready_file))
        self.process = start(*paths, *self.arguments, **self.environment)
        deadline = time.monotonic() + 20
        while not self.ready_file.exists():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline, "the sandbox did not get ready"
            time.sleep(0.01)
        self.ready: dict[str, Any] = json.loads(self.ready_file.read_text())
        self.gateway = _client(self.ready["gateway"], GATEWAY_KEY)
        self.store = _client(self.ready["store"], STORE_KEY)
        self.helpdesk = _client(self.ready["helpdesk"], HELPDESK_KEY)

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """The exit code and what was written to stderr."""
        self.gateway.close()
        self.store.close()
        self.helpdesk.close()
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=10)
        return self.process.returncode, errors

    def order(self, *captured: int, **fields: Any) -> dict[str, Any]:
        """A new order with one payment per captured amount."""
        order = order_line(*captured, **fields)
        self.store.put(f"/_orders/{order['order_id']}", json=order).raise_for_status()
        return order

    def payment(self, captured: int = 10_000, **fields: Any) -> str:
        """The payment of a new order."""
        return self.order(captured, **fields)["payments"][0]["payment_id"]

    def faults(self, *items: dict[str, Any]) -> None:
        self.gateway.post("/_faults", json=list(items)).raise_for_status()

    def fault(self, do: str, operation: str = "refund", times: int = 1) -> None:
        self.faults({"operation": operation, "do": do, "times": times})

    def refund(self, payment: str, amount: int | None = 1000, key: str | None = None, **more: str) -> httpx.Response:
        form = {"charge": payment, "metadata[counterseal_operation]": f"op_{payment}", **more}
        if amount is not None:
            form["amount"] = str(amount)
        return self.gateway.post("/v1/refunds", data=form, headers={"Idempotency-Key": key} if key else {})

    def refunds(self, payment: str, **query: str) -> list[dict[str, Any]]:
        answer = self.gateway.get("/v1/refunds", params={"charge": payment, **query})
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def charge(self, payment: str) -> dict[str, Any]:
        return self.gateway.get(f"/v1/charges/{payment}").json()

    def effects(self, payment: str) -> list[dict[str, Any]]:
        effects = self.gateway.get("/_effects").json()["effects"]
        return [effect for effect in effects if effect["payment_id"] == payment]

    def last_request(self) -> dict[str, Any]:
        return self.gateway.get("/_requests").json()["requests"][-1]


def _client(url: str, key: str) -> httpx.Client:
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=5)


def order_line(*captured: int, **fields: Any) -> dict[str, Any]:
    id_ = secrets.token_hex(6)
    return {
        "order_id": f"ord_{id_}",
        "customer_id": "cus_0123456789ab",
        "status": "delivered",
        "placed_at": "2026-10-17T19:20:00Z",
        "currency": "USD",
        "items": [{"item_id": "1", "name": "Lamp", "quantity": 1, "price_cents": sum(captured), "options": {}}],
        "payments": [
            {"payment_id": f"pay_{id_}{n}", "method": "card", "captured_cents": cents}
            for n, cents in enumerate(captured)
        ],
        "refunds": [],
        "disputed": False,
        "shipping_address": {
            "line1": "1 Example Street",
            "line2": None,
            "city": "Sampletown",
            "region": "CA",
            "postal_code": "90000",
            "country": "US",
        },
        "tracking_ids": [],
        **fields,
    }
