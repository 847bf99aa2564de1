"""localstripe (PyPI): a mock of Stripe that knows neither idempotency keys nor a bound to what is refunded.

So a request that is sent twice shows as money lost. https://github.com/adrienverge/localstripe
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.gateways.peers.peer import Urls
from tests.gateways.peers.programs import FOREIGN, PEERS, program
from tests.gateways.peers.stripe_api import StripeApiPeer


@contextmanager
def start_localstripe(folder: Path) -> Generator[Urls]:
    ready = folder / "ready.json"
    python = PEERS / "bin" / "python"
    if not python.exists():
        pytest.fail("localstripe is not installed: make peers")
    with program([str(python), str(FOREIGN / "serve_localstripe.py"), str(ready)], ready) as urls:
        yield urls


class LocalStripe(StripeApiPeer):
    """Its charges lack `amount_captured` and `disputed`, its intents hold the charge where Stripe has its id, and it
    lists refunds by no time."""

    start = staticmethod(start_localstripe)
    abilities = frozenset({"payment_intents", "three_decimals"})

    async def payment(self, amount: int = 10_000, currency: str = "USD") -> str:
        charge = await self.post(
            "/v1/charges", amount=str(amount), currency=currency.lower(), source=await self._card()
        )
        return charge["id"]

    async def intent(self) -> str:
        intent = await self.post(
            "/v1/payment_intents", amount="10000", currency="usd", payment_method=await self._card(), confirm="true"
        )
        return intent["id"]

    async def _card(self) -> str:
        card = {
            "card[number]": "4242424242424242",
            "card[exp_month]": "12",
            "card[exp_year]": "2030",
            "card[cvc]": "1" * 3,
        }
        return (await self.post("/v1/payment_methods", type="card", **card))["id"]
