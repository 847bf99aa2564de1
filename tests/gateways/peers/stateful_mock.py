"""stripe-stateful-mock (npm): a mock of Stripe that keeps keys, refuses over-refunds, and knows no payment intents.

https://github.com/pushplay/stripe-stateful-mock
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.gateways.peers.peer import Urls
from tests.gateways.peers.programs import FOREIGN, PEERS, node, program
from tests.gateways.peers.stripe_api import StripeApiPeer


@contextmanager
def start_stateful_mock(folder: Path) -> Generator[Urls]:
    ready = folder / "ready.json"
    found = node()
    if found is None or not (PEERS / "node_modules").exists():
        pytest.fail("stripe-stateful-mock is not installed: make peers")
    with program([found, str(FOREIGN / "stateful_mock.js"), str(PEERS), str(ready)], ready) as urls:
        yield urls


class StatefulMock(StripeApiPeer):
    """Lists refunds of one second oldest first, where Stripe documents the newest first."""

    start = staticmethod(start_stateful_mock)
    abilities = frozenset({"lists_by_time", "bounds", "disputes", "keys", "reads_payments"})

    async def payment(self, amount: int = 10_000, currency: str = "USD") -> str:
        return await self._charge("tok_visa", amount, currency)

    async def disputed_payment(self) -> str:
        charge_id = await self._charge("tok_createDispute", 10_000, "USD")
        async with asyncio.timeout(5):
            while not (await self.get(f"/v1/charges/{charge_id}"))["disputed"]:
                await asyncio.sleep(0.01)
        return charge_id

    async def _charge(self, source: str, amount: int, currency: str) -> str:
        charge = await self.post("/v1/charges", amount=str(amount), currency=currency.lower(), source=source)
        return charge["id"]
