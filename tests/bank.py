"""The sandbox's bank in a process of its own, as a test prepares it and looks at what really happened."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests import loopback

KEY = "bank-key-of-the-tests"


@dataclass(frozen=True)
class BankAt:
    """A bank at a URL. What it is asked here needs no key."""

    url: str

    async def customer(self, *, balance: int = 1_000_000) -> str:
        """A new customer with an account."""
        customer_id = f"cus_{secrets.token_hex(6)}"
        await self._send("PUT", f"/_accounts/{customer_id}", {"balance": balance})
        return customer_id

    async def recipient(self, customer_id: str, **more: Any) -> str:
        """A recipient of a customer, set up long ago and paid before."""
        recipient_id = f"rcp_{secrets.token_hex(6)}"
        known = {"customer_id": customer_id, "added_at": "2026-01-02T03:04:05+00:00", "payments": 3}
        await self._send("PUT", f"/_recipients/{recipient_id}", known | more)
        return recipient_id

    async def fault(self, *faults: str) -> None:
        await self._send("POST", "/_faults", list(faults))

    async def payments(self, recipient_id: str) -> list[dict[str, Any]]:
        """What really went to a recipient."""
        made = (await self._send("GET", "/_payments")).json()["payments"]
        return [each for each in made if each["recipient_id"] == recipient_id]

    async def _send(self, method: str, path: str, content: Any = None) -> httpx.Response:
        async with loopback.plain_client() as client:
            answer = await client.request(method, self.url + path, json=content)
            return answer.raise_for_status()


@contextmanager
def bank_process() -> Generator[BankAt]:
    """A bank on a real socket, which knows nobody yet."""
    with sandbox_program("bank", KEY) as url:
        yield BankAt(url)


@contextmanager
def sandbox_program(name: str, key: str) -> Generator[str]:
    """The URL of `python -m sandbox.<name>`, whose callers show that key."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"sandbox.{name}"],
        cwd=Path(__file__).parents[1],
        env={**os.environ, f"SANDBOX_{name.upper()}_KEY": key},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        with process.stdout as said:
            yield json.loads(said.readline())["url"]
    finally:
        process.terminate()
        process.wait(10)
