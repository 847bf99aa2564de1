"""The project's own sandbox: it can do everything, and go wrong in every way."""

import secrets
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.gateways.peers.peer import FaultTable, Made, Peer, ReadFaultTable, Urls
from tests.gateways.peers.programs import program

KEY = "key_of_the_tests"

REFUND_FAULTS: FaultTable = {
    "commit_then_drop": ("unknown no_response", 1, "confirmed succeeded"),
    "commit_then_500": ("unknown http_500", 1, "confirmed succeeded"),
    "slow_drip": ("unknown timeout", 1, "confirmed succeeded"),
    "delay:0.1": ("confirmed succeeded", 1, "confirmed succeeded"),
    "delay:30": ("unknown timeout", 1, "confirmed succeeded"),
    "garbage": ("unknown unreadable", 1, "confirmed succeeded"),
    "html": ("unknown unreadable", 1, "confirmed succeeded"),
    "duplicate_keys": ("unknown unreadable", 1, "confirmed succeeded"),
    "wrong_amount": ("unknown mismatched_amount", 1, "confirmed succeeded"),
    "wrong_id": ("unknown mismatched_operation", 1, "confirmed succeeded"),
    "pending": ("confirmed pending", 1, "confirmed pending"),
    "pending_then_failed": ("confirmed pending", 1, "failed REMOTE_REFUSED"),
    "late_visible:0.4": ("unknown no_response", 1, "absent"),
    "drop_before_read": ("unknown no_response", 0, "absent"),
    "reset": ("unknown reset", 0, "absent"),
    "redirect_self": ("unknown http_307", 0, "absent"),
    "redirect_other": ("unknown http_307", 0, "absent"),
    "429:7": ("failed RATE_LIMITED", 0, "absent"),
    "429:7:lock_timeout": ("unknown http_429", 0, "absent"),
    "503": ("unknown http_503", 0, "absent"),
    "503_forever": ("unknown http_503", 0, "absent"),
    "in_use": ("unknown http_409", 0, "absent"),
    "already_refunded": ("unknown http_400", 0, "absent"),
}
LIST_FAULTS: ReadFaultTable = {
    "commit_then_drop": ("unknown no_response", "no_response"),
    "commit_then_500": ("unknown http_500", "http_500"),
    "slow_drip": ("unknown timeout", "timeout"),
    "delay:0.1": ("confirmed succeeded", None),
    "garbage": ("unknown unreadable", "unreadable"),
    "html": ("unknown unreadable", "unreadable"),
    "duplicate_keys": ("unknown unreadable", "unreadable"),
    "wrong_amount": ("unknown mismatched_amount", None),
    "wrong_id": ("absent", None),
    "drop_before_read": ("unknown no_response", "no_response"),
    "reset": ("unknown reset", "reset"),
    "redirect_self": ("unknown http_307", "http_307"),
    "redirect_other": ("unknown http_307", "http_307"),
    "429:7": ("unknown rate_limited", "rate_limited"),
    "503": ("unknown http_503", "http_503"),
    "503_forever": ("unknown http_503", "http_503"),
}


@contextmanager
def start_sandbox(folder: Path) -> Generator[Urls]:
    ready = folder / "ready.json"
    command = [sys.executable, "-m", "sandbox", "--data", str(folder / "data"), "--ready-file", str(ready)]
    with program(command, ready, {f"SANDBOX_{name}_KEY": KEY for name in ("GATEWAY", "STORE", "HELPDESK")}) as urls:
        yield urls


class SandboxPeer(Peer):
    """Its gateway speaks as Stripe does; its store has the orders."""

    start = staticmethod(start_sandbox)
    abilities = frozenset(
        {
            "bounds",
            "disputes",
            "keys",
            "late_status",
            "lists_by_time",
            "newest_first",
            "payment_intents",
            "reads_payments",
            "three_decimals",
        }
    )
    key = KEY
    unknown_payment = "pay_unknown"
    refund_faults = REFUND_FAULTS
    list_faults = LIST_FAULTS

    @property
    def store_url(self) -> str:
        return self.urls["store"]

    @property
    def helpdesk_url(self) -> str:
        return self.urls["helpdesk"]

    async def payment(self, amount: int = 10_000, currency: str = "USD") -> str:
        return (await self.order(captured=amount, currency=currency))["payments"][0]["payment_id"]

    async def intent(self) -> str:
        payment_id = f"pi_{secrets.token_hex(8)}"
        await self.order([payment_id])
        return payment_id

    async def disputed_payment(self) -> str:
        return (await self.order(disputed=True))["payments"][0]["payment_id"]

    async def made(self, payment_id: str) -> list[Made]:
        return [
            Made(each["refund_id"], each["amount"], each["currency"], each["operation_id"], each["status"])
            for each in await self.effects(payment_id)
        ]

    async def effects(self, payment_id: str) -> list[dict[str, Any]]:
        answer = await self.client.get(f"{self.url}/_effects")
        return [each for each in answer.json()["effects"] if each["payment_id"] == payment_id]

    async def sends(self, idempotency_key: str) -> int:
        answer = await self.client.get(f"{self.url}/_requests")
        return sum(each["idempotency_key"] == idempotency_key for each in answer.json()["requests"])

    async def refund_by_hand(self, payment_id: str, amount: int) -> None:
        wanted = {"payment_id": payment_id, "amount": amount}
        (await self.client.post(f"{self.url}/_refunds", json=wanted)).raise_for_status()

    async def set_status(self, refund_id: str, status: str) -> None:
        (await self.client.post(f"{self.url}/_refunds/{refund_id}", json={"status": status})).raise_for_status()

    async def fault(self, operation: str, do: str, payment_id: str, times: int = 1) -> None:
        script = [{"operation": operation, "do": do, "payment_id": payment_id, "times": times}]
        (await self.client.post(f"{self.url}/_faults", json=script)).raise_for_status()

    async def clear_faults(self) -> None:
        (await self.client.delete(f"{self.url}/_faults")).raise_for_status()

    async def order(
        self, payment_ids: list[str] | None = None, *, captured: int = 10_000, **changes: Any
    ) -> dict[str, Any]:
        """A new delivered order; each of its payments is of `captured`, 100.00 USD unless told otherwise."""
        mark = secrets.token_hex(6)
        order: dict[str, Any] = {
            "order_id": f"ord_{mark}",
            "customer_id": f"cus_{mark}",
            "status": "delivered",
            "placed_at": "2026-01-02T03:04:05Z",
            "currency": "USD",
            "items": [{"item_id": "1", "name": "Lamp", "quantity": 1, "price_cents": 10_000, "options": {"a": "b"}}],
            "payments": [
                {"payment_id": each, "method": "card", "captured_cents": captured}
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

    async def ticket(self, **changes: Any) -> dict[str, Any]:
        """A new open ticket of a customer of its own."""
        mark = secrets.randbelow(2**40) + 10_000
        words = {"subject": "Lamp", "description": "It flickers."}
        ticket = {"id": mark, "customer_id": f"cus_{mark}", "status": "open", **words} | changes
        await self._put(f"/_tickets/{ticket['id']}", ticket, self.helpdesk_url)
        return ticket

    async def words_on(self, ticket_id: int) -> list[dict[str, Any]]:
        answer = await self.client.get(f"{self.helpdesk_url}/_tickets/{ticket_id}")
        return [each["events"][0] for each in answer.json()["audits"]]

    async def shipment(self, order: dict[str, Any], **changes: Any) -> dict[str, Any]:
        """The parcel that the order names."""
        events = [{"at": "2026-01-03T00:00:00Z", "state": "in_transit", "place": "Springfield"}]
        shipment = {
            "tracking_id": order["tracking_ids"][0],
            "order_id": order["order_id"],
            "carrier": "Sample Parcel",
            "state": "in_transit",
            "events": events,
            "note": "Leave it at the back door",
        } | changes
        await self._put(f"/_shipments/{shipment['tracking_id']}", shipment)
        return shipment

    async def _put(self, path: str, content: dict[str, Any], base: str | None = None) -> None:
        (await self.client.put((base or self.store_url) + path, json=content)).raise_for_status()
