"""The project's own simulated PayPal: it can do everything that PayPal documents, and go wrong in every way."""

import secrets
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

from gateways.registry import Endpoint
from tests.gateways.peers.peer import FaultTable, Made, Peer, ReadFaultTable, Urls
from tests.gateways.peers.programs import program

CLIENT_ID = "client_of_the_tests"
SECRET = "secret_of_the_tests"
_MINOR_UNITS = {"JPY": 0}


@contextmanager
def start_paypal(folder: Path) -> Generator[Urls]:
    ready = folder / "ready.json"
    command = [sys.executable, "-m", "sandbox.paypal", "--data", str(folder / "data"), "--ready-file", str(ready)]
    with program(
        command, ready, {"SANDBOX_PAYPAL_CLIENT_ID": CLIENT_ID, "SANDBOX_PAYPAL_CLIENT_SECRET": SECRET}
    ) as urls:
        yield urls


class PayPalPeer(Peer):
    """A payment is a capture. Nothing documents the order of an order's refunds."""

    start = staticmethod(start_paypal)
    abilities = frozenset({"bounds", "disputes", "keys", "late_status", "reads_payments"})
    key = SECRET
    unknown_payment = "UNKNOWN"
    # The latest status of what the key did before, whatever comes with it.
    key_taken = "unknown mismatched_amount"
    # "Refund must be in the same currency as the capture."
    other_currency = "failed REMOTE_REFUSED"
    refund_faults: ClassVar[FaultTable] = {
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
        "503": ("unknown http_503", 0, "absent"),
        "503_forever": ("unknown http_503", 0, "absent"),
        "in_use": ("unknown http_409", 0, "absent"),
        "already_refunded": ("unknown http_422", 0, "absent"),
    }
    list_faults: ClassVar[ReadFaultTable] = {
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

    def endpoint(self, url: str | None = None, *, key: str | None = None, deadline_seconds: float = 5.0) -> Endpoint:
        return replace(super().endpoint(url, key=key, deadline_seconds=deadline_seconds), client_id=CLIENT_ID)

    async def payment(self, amount: int = 10_000, currency: str = "USD") -> str:
        return await self.capture(amount, currency)

    async def disputed_payment(self) -> str:
        return await self.capture(10_000, "USD", disputed=True)

    async def capture(self, amount: int, currency: str, **more: Any) -> str:
        capture_id = secrets.token_hex(9).upper()
        line = {"amount": {"currency_code": currency, "value": _major(amount, currency)}, **more}
        (await self.client.put(f"{self.url}/_captures/{capture_id}", json=line)).raise_for_status()
        return capture_id

    async def made(self, payment_id: str) -> list[Made]:
        answer = await self.client.get(f"{self.url}/_effects")
        return [
            Made(
                each["refund_id"],
                int(Decimal(each["amount"]).scaleb(_MINOR_UNITS.get(each["currency"], 2))),
                each["currency"],
                each["operation_id"],
                each["status"],
            )
            for each in answer.json()["effects"]
            if each["payment_id"] == payment_id
        ]

    async def sends(self, idempotency_key: str) -> int:
        answer = await self.client.get(f"{self.url}/_requests")
        return sum(each["idempotency_key"] == idempotency_key for each in answer.json()["requests"])

    async def refund_by_hand(self, payment_id: str, amount: int) -> None:
        wanted = {"payment_id": payment_id, "amount": _major(amount, "USD")}
        (await self.client.post(f"{self.url}/_refunds", json=wanted)).raise_for_status()

    async def set_status(self, refund_id: str, status: str) -> None:
        wanted = {"status": {"failed": "FAILED", "canceled": "CANCELLED", "succeeded": "COMPLETED"}[status]}
        (await self.client.post(f"{self.url}/_refunds/{refund_id}", json=wanted)).raise_for_status()

    async def fault(self, operation: str, do: str, payment_id: str, times: int = 1) -> None:
        script = [{"operation": operation, "do": do, "payment_id": payment_id, "times": times}]
        (await self.client.post(f"{self.url}/_faults", json=script)).raise_for_status()

    async def clear_faults(self) -> None:
        (await self.client.delete(f"{self.url}/_faults")).raise_for_status()


def _major(amount: int, currency: str) -> str:
    places = _MINOR_UNITS.get(currency, 2)
    return f"{Decimal(amount).scaleb(-places):.{places}f}"
