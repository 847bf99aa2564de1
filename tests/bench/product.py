"""The product that is measured: `counterseal up` in a folder of its own, on disk, as its users start it."""

import secrets
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, cycle
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from runtime.stack.files import DataFolder
from runtime.stack.postgres import Postgres
from tests.bench.load import Ask, Plan, played
from tests.bench.world import ORDERS_EACH, customer, order, payment, write_policy, write_store
from tests.e2e.running import RunningStack

# Refusals of one caller are bounded; here they are what is counted.
_UNBOUNDED = {
    f"COUNTERSEAL_{name}": "1000000000"
    for name in (
        "INVALID_CALLS_PER_MINUTE",
        "INVALID_CALLS_PER_HOUR",
        "ADDRESS_INVALID_CALLS_PER_MINUTE",
        "ADDRESS_INVALID_CALLS_PER_HOUR",
    )
}


@dataclass
class Product:
    """A running stack, and which of its orders were not used yet."""

    stack: RunningStack
    folder: Path
    orders: int
    _calls: Iterator[int] = field(default_factory=count)
    _tokens: dict[int, str] = field(default_factory=dict[int, str])

    def stop(self) -> None:
        self.stack.stop()

    def start(self) -> None:
        """Again, on the same data."""
        self.stack = _started(self.folder)

    @property
    def url(self) -> str:
        return self.stack.info["api"]

    @property
    def pids(self) -> list[int]:
        """The supervisor, of which all else are children."""
        return [self.stack.process.pid]

    @property
    def outside(self) -> list[int]:
        """Postgres and the sandbox, which the plain forms use as well."""
        pids = self.stack.info["pids"]
        return [pids["postgres"], pids["sandbox"]]

    @property
    def postgres(self) -> Postgres:
        folder = DataFolder(self.stack.data)
        port = int(self.stack.info["database"].rpartition(":")[2].partition("/")[0])
        return Postgres(cluster=folder.postgres, keys=folder.keys, log=folder.logs / "postgres.log", port=port)

    @property
    def gateway_key(self) -> str:
        return (DataFolder(self.stack.data).keys / "sandbox_gateway_key").read_text().strip()

    def refunds(self, calls: int, amount: int, urls: Sequence[str] = ()) -> list[Ask]:
        """Calls of `issue_refund`, each for the next order, to these APIs in turn. Their runs are opened now, untimed.

        When every order had one, they come again with another amount: the very same refund waits for a person.
        """
        taken = self._take(calls)
        self._open_runs(sorted({each // ORDERS_EACH for each in taken}))
        turns = cycle(urls or (self.url,))
        return [
            Ask(
                f"{next(turns)}/v1/tool-calls",
                self._tokens[each // ORDERS_EACH],
                {
                    "tool": "issue_refund",
                    "arguments": {
                        "order_id": order(each % self.orders),
                        "amount_cents": amount + each // self.orders,
                        "currency": "USD",
                        "reason_code": "damaged",
                        "note": "The lamp arrived with a crack along its foot.",
                        "idempotency_key": secrets.token_hex(16),
                    },
                },
            )
            for each in taken
        ]

    def plainly(self, calls: int, amount: int, path: str, url: str) -> list[Ask]:
        """The same refunds for a plain form."""
        return [
            Ask(
                f"{url}{path}",
                body={"payment_id": payment(each % self.orders), "amount": amount, "key": secrets.token_hex(16)},
            )
            for each in self._take(calls)
        ]

    @contextmanager
    def another(self, program: str, name: str, **settings: str) -> Generator[psutil.Process]:
        """One more process of the stack: `counterseal PROGRAM` with the settings of its own, and these."""
        pids, ready = self.stack.info["pids"], self.folder / f"{name}.ready"
        own = psutil.Process(pids["api"] if program == "api" else pids["workers"][0]).environ()
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "runtime.cli.main", program],
                env={**own, "COUNTERSEAL_READY_FILE": str(ready), "COUNTERSEAL_METRICS_PORT": "0", **settings},
                stdout=log,
                stderr=log,
            )
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(90)

    def _take(self, calls: int) -> list[int]:
        """The next numbers, from another customer on: what was asked for theirs before counts."""
        first = next(each for each in self._calls if each % ORDERS_EACH == 0)
        return [first, *(next(self._calls) for _ in range(calls - 1))]

    def waiting(self) -> list[dict[str, Any]]:
        """All approvals that wait."""
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            page = self.stack.get(f"/v1/approvals?limit=500{after}", self.stack.approver()["token"])
            assert page.status_code == 200, page.text
            found += page.json()["approvals"]
            cursor = page.json()["next_cursor"]
            if cursor is None:
                return found
            after = f"&cursor={quote(cursor)}"

    def approval(self, waiting: dict[str, Any]) -> Ask:
        """What an approver sends to approve it."""
        return Ask(
            f"{self.url}/v1/approvals/{waiting['approval_id']}/decision",
            self.stack.approver()["token"],
            {"decision": "approve", "action_digest": waiting["action_digest"], "reason": "The photo shows it."},
        )

    def payment_of(self, waiting: dict[str, Any]) -> str:
        return payment(int(waiting["arguments"]["order_id"].removeprefix("ord_")))

    def paid(self, payments: Sequence[str], within: float = 60.0) -> dict[str, list[str]]:
        """When the gateway recorded refunds of these payments (ISO 8601), once all have one, or after that time."""
        wanted, until = set(payments), time.monotonic() + within
        while True:
            found: dict[str, list[str]] = {}
            for effect in self.stack.gateway("/_effects")["effects"]:
                if effect["payment_id"] in wanted:
                    found.setdefault(effect["payment_id"], []).append(effect["at"])
            if found.keys() == wanted or time.monotonic() > until:
                return found
            time.sleep(0.2)

    def _open_runs(self, runs: list[int]) -> None:
        new = [each for each in runs if each not in self._tokens]
        asks = [
            Ask(
                f"{self.url}/v1/runs",
                self.stack.info["service_token"],
                {
                    "agent_id": f"agent-{each % (self.orders // ORDERS_EACH)}",
                    "actor_id": "actor",
                    "customer_id": customer(each % (self.orders // ORDERS_EACH)),
                    "tools": ["issue_refund", "lookup_orders"],
                    "expires_in_seconds": 86_400,
                },
            )
            for each in new
        ]
        # One client, so that the answers come in the order of the asks.
        opened = played(Plan(asks, bodies=True))
        self._tokens |= {each: body["run_token"] for each, body in zip(new, opened.bodies, strict=True)}


@contextmanager
def product(root: Path, *, orders: int, name: str = "stack") -> Generator[Product]:
    """Up until the block ends, with so many orders to refund."""
    folder = root / name
    # A customer's orders are in one run.
    orders += -orders % ORDERS_EACH
    write_store(folder / "store", orders)
    write_policy(folder / "policy.yaml")
    running = Product(_started(folder), folder, orders)
    try:
        yield running
    finally:
        running.stop()


def _started(folder: Path) -> RunningStack:
    environment = {"COUNTERSEAL_POLICY": str(folder / "policy.yaml"), **_UNBOUNDED}
    return RunningStack.start(folder / "data", environment, store=folder / "store")
