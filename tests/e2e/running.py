"""The embedded stack as a user runs it: one `counterseal up` process, its ready file, and who speaks to it."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

_READY_SECONDS = 120


# A server may close a connection that was kept just when the next request is on its way.
UNSHARED = httpx.Limits(max_keepalive_connections=0)


@dataclass
class RunningStack:
    """A started stack. `info` is its ready file."""

    data: Path
    process: subprocess.Popen[bytes]
    info: dict[str, Any]
    http: httpx.Client = field(
        default_factory=lambda: httpx.Client(trust_env=False, verify=False, timeout=70, limits=UNSHARED)
    )

    @classmethod
    def start(
        cls, data: Path, environment: Mapping[str, str] | None = None, *, store: Path | None = None
    ) -> "RunningStack":
        ready = data.parent / f"{data.name}.ready.json"
        ready.unlink(missing_ok=True)
        with (data.parent / f"{data.name}.out").open("ab") as output:
            options = ["--data", str(data), "--ready-file", str(ready)]
            if store is not None:
                options += ["--store", str(store)]
            process = subprocess.Popen(
                [sys.executable, "-m", "runtime.cli.main", "up", *options],
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
            )
        deadline = time.monotonic() + _READY_SECONDS
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise AssertionError((data.parent / f"{data.name}.out").read_text())
            time.sleep(0.1)
        return cls(data, process, json.loads(ready.read_text()))

    def stop(self) -> int:
        self.http.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill_everything(self) -> None:
        """SIGKILL to the supervisor, which takes the API and the workers along, and to the servers that it started."""
        self.http.close()
        self.process.kill()
        self.process.wait(10)
        pids = self.info["pids"]
        for pid in (pids["temporal"], pids["postgres"], pids["sandbox"]):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def get(self, path: str, token: str) -> httpx.Response:
        return self.http.get(self.info["api"] + path, headers={"Authorization": f"Bearer {token}"})

    def post(self, path: str, token: str, body: object) -> httpx.Response:
        return self.http.post(self.info["api"] + path, headers={"Authorization": f"Bearer {token}"}, json=body)

    def gateway(self, path: str) -> Any:
        return self.http.get(self.info["sandbox"]["gateway"] + path).json()

    def fault(self, operation: str, do: str, payment_id: str) -> None:
        script = [{"operation": operation, "times": 1, "do": do, "payment_id": payment_id}]
        assert self.http.post(self.info["sandbox"]["gateway"] + "/_faults", json=script).is_success

    def approver(self, number: int = 0) -> dict[str, str]:
        return self.info["approvers"][number]

    def order(self, *, paid: int = 50_000, fraud: bool = False, note: str = "") -> "Customer":
        """A new customer with one delivered order, ten days old, paid by card."""
        mark = secrets.token_hex(6)
        order_id, customer_id, payment_id = f"ord_{mark}", f"cus_{mark}", f"pay_{mark}"
        placed = (datetime.now(UTC) - timedelta(days=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
        customer = {
            "customer_id": customer_id,
            "name": f"Example Person {mark}",
            "email": f"{mark}@example.com",
            "fraud_flag": fraud,
        }
        address = {"line1": "1 Example Street", "line2": None, "city": "Exampletown", "region": "EX"}
        order = {
            "order_id": order_id,
            "customer_id": customer_id,
            "status": "delivered",
            "placed_at": placed,
            "currency": "USD",
            "items": [{"item_id": "1", "name": "Lamp", "quantity": 1, "price_cents": paid, "options": {}}],
            "payments": [{"payment_id": payment_id, "method": "card", "captured_cents": paid}],
            "refunds": [],
            "disputed": False,
            "shipping_address": {**address, "postal_code": "00000", "country": "US"},
            "tracking_ids": [],
        }
        store = self.info["sandbox"]["store"]
        assert self.http.put(f"{store}/_customers/{customer_id}", json=customer).is_success
        assert self.http.put(f"{store}/_orders/{order_id}", json=order).is_success
        return Customer(self, customer_id, order_id, payment_id, self.open_run(customer_id))

    def open_run(self, customer_id: str) -> str:
        body = {
            "agent_id": f"example-agent-{customer_id}",
            "actor_id": "user_example",
            "customer_id": customer_id,
            "tools": ["issue_refund", "lookup_orders"],
        }
        opened = self.post("/v1/runs", self.info["service_token"], body)
        assert opened.status_code == 201, opened.text
        return opened.json()["run_token"]


@dataclass
class Customer:
    """One customer's order, and the agent's run for them."""

    stack: RunningStack
    customer_id: str
    order_id: str
    payment_id: str
    token: str

    def refund(self, amount: int, note: str = "example note", key: str | None = None) -> httpx.Response:
        arguments = {
            "order_id": self.order_id,
            "amount_cents": amount,
            "currency": "USD",
            "reason_code": "damaged",
            "note": note,
            "idempotency_key": key or secrets.token_hex(16),
        }
        return self.stack.post("/v1/tool-calls", self.token, {"tool": "issue_refund", "arguments": arguments})

    def progress(self, request_id: str, wait: int = 30) -> dict[str, Any]:
        return self.stack.get(f"/v1/tool-calls/{request_id}?wait_seconds={wait}", self.token).json()

    def effects(self) -> list[dict[str, Any]]:
        found = self.stack.gateway("/_effects")["effects"]
        return [each for each in found if each["payment_id"] == self.payment_id]

    def posts(self) -> int:
        """How many refund requests the gateway received with the keys of this customer's effects."""
        keys = {each["idempotency_key"] for each in self.effects()}
        found = self.stack.gateway("/_requests")["requests"]
        return sum(each["operation"] == "refund" and each["idempotency_key"] in keys for each in found)

    def waiting(self) -> dict[str, Any]:
        """This customer's parked approval."""
        page = self.stack.get("/v1/approvals?limit=500", self.stack.approver()["token"]).json()
        (found,) = [each for each in page["approvals"] if each["customer_id"] == self.customer_id]
        return found

    def decide(self, decision: str, reason: str = "") -> httpx.Response:
        approval = self.waiting()
        body = {"decision": decision, "action_digest": approval["action_digest"], "reason": reason}
        path = f"/v1/approvals/{approval['approval_id']}/decision"
        return self.stack.post(path, self.stack.approver()["token"], body)
