"""The real sandbox on real sockets, once a session, and raw servers that misbehave as a test wants."""

import asyncio
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from gateways.egress import Egress
from gateways.http import new_client
from gateways.registry import Endpoint

KEY = "key_of_the_tests"
ROOT = Path(__file__).parents[2]

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class SandboxUrls:
    gateway: str
    store: str


@pytest.fixture(scope="session")
def sandbox_urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxUrls]:
    folder = tmp_path_factory.mktemp("sandbox")
    ready = folder / "ready.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "sandbox", "--data", str(folder / "data"), "--ready-file", str(ready)],
        cwd=ROOT,
        env={**os.environ, "SANDBOX_GATEWAY_KEY": KEY, "SANDBOX_STORE_KEY": KEY},
        stdout=subprocess.DEVNULL,
    )
    try:
        give_up = time.monotonic() + 20
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > give_up:
                pytest.fail("the sandbox did not start")
            time.sleep(0.02)
        content = json.loads(ready.read_text())
        yield SandboxUrls(content["gateway"], content["store"])
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with new_client() as shared:
        yield shared


class Sandbox:
    """The outside world as a test prepares it and looks at it, by ways that no service has."""

    def __init__(self, urls: SandboxUrls, client: httpx.AsyncClient) -> None:
        self.gateway_url, self.store_url = urls.gateway, urls.store
        self.egress = Egress([urls.gateway, urls.store])
        self._client = client

    def endpoint(self, url: str, *, key: str = KEY, deadline_seconds: float = 5.0) -> Endpoint:
        return Endpoint(base_url=url, api_key=SecretStr(key), deadline_seconds=deadline_seconds)

    async def order(self, payment_ids: list[str] | None = None, **changes: Any) -> dict[str, Any]:
        """A new delivered order, paid 100.00 USD with each payment."""
        mark = secrets.token_hex(6)
        order: dict[str, Any] = {
            "order_id": f"ord_{mark}",
            "customer_id": f"cus_{mark}",
            "status": "delivered",
            "placed_at": "2026-01-02T03:04:05Z",
            "currency": "USD",
            "items": [{"item_id": "1", "name": "Lamp", "quantity": 1, "price_cents": 10_000, "options": {"a": "b"}}],
            "payments": [
                {"payment_id": each, "method": "card", "captured_cents": 10_000}
                for each in (payment_ids or [f"pay_{mark}"])
            ],
            "refunds": [],
            "disputed": False,
            "shipping_address": {
                "line1": "1 Example Street",
                "line2": None,
                "city": "Springfield",
                "region": "NY",
                "postal_code": "10001",
                "country": "US",
            },
            "tracking_ids": ["T1"],
        } | changes
        customer = {"customer_id": order["customer_id"], "name": "Ada Example", "email": "ada@example.com"}
        await self._put(f"/_customers/{order['customer_id']}", customer)
        await self._put(f"/_orders/{order['order_id']}", order)
        return order

    async def _put(self, path: str, content: dict[str, Any]) -> None:
        (await self._client.put(self.store_url + path, json=content)).raise_for_status()

    async def fault(self, operation: str, do: str, payment_id: str, times: int = 1) -> None:
        script = [{"operation": operation, "do": do, "payment_id": payment_id, "times": times}]
        (await self._client.post(f"{self.gateway_url}/_faults", json=script)).raise_for_status()

    async def clear_faults(self) -> None:
        (await self._client.delete(f"{self.gateway_url}/_faults")).raise_for_status()

    async def effects(self, payment_id: str) -> list[dict[str, Any]]:
        answer = await self._client.get(f"{self.gateway_url}/_effects")
        return [each for each in answer.json()["effects"] if each["payment_id"] == payment_id]

    async def set_refund_status(self, refund_id: str, status: str) -> None:
        answer = await self._client.post(f"{self.gateway_url}/_refunds/{refund_id}", json={"status": status})
        answer.raise_for_status()

    async def refund_in_dashboard(self, payment_id: str, amount: int) -> None:
        wanted = {"payment_id": payment_id, "amount": amount}
        (await self._client.post(f"{self.gateway_url}/_refunds", json=wanted)).raise_for_status()


@pytest.fixture
async def sandbox(sandbox_urls: SandboxUrls, client: httpx.AsyncClient) -> AsyncIterator[Sandbox]:
    box = Sandbox(sandbox_urls, client)
    yield box
    await box.clear_faults()


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[Handler], Awaitable[str]]]:
    """Starts a raw TCP server with a handler for each connection; gives its base URL."""
    async with AsyncExitStack() as stack:

        async def start(handler: Handler) -> str:
            async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                try:
                    await handler(reader, writer)
                except ConnectionError:
                    pass
                finally:
                    writer.close()

            server = await asyncio.start_server(handle, "127.0.0.1", 0)
            stack.callback(server.close)
            return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

        yield start
