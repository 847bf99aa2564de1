"""The bank's API: accounts, recipients, payments. What it does twice or forgets is scripted at `/_faults`."""

import asyncio
import itertools
import json
import secrets
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

Json = dict[str, Any]


@dataclass
class Bank:
    """Everything it knows, in memory. `keys`: the first answer of each idempotency key, and what it was asked."""

    api_key: str
    accounts: dict[str, Json] = field(default_factory=dict[str, Json])
    recipients: dict[str, Json] = field(default_factory=dict[str, Json])
    payments: list[Json] = field(default_factory=list[Json])
    keys: dict[str, tuple[str, int, Json]] = field(default_factory=dict[str, tuple[str, int, Json]])
    faults: deque[str] = field(default_factory=deque[str])
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def pay(self, asked: Json) -> tuple[int, Json]:
        """(status, answer). Moves the money or says why not."""
        recipient = self.recipients.get(str(asked.get("recipient_id")))
        account = self.accounts.get(recipient["customer_id"]) if recipient else None
        amount = asked.get("amount")
        if recipient is None or account is None:
            return 404, error("recipient_not_found")
        if not isinstance(amount, int) or isinstance(amount, bool) or amount < 1:
            return 422, error("invalid_amount")
        if asked.get("currency") != account["currency"]:
            return 422, error("other_currency")
        if not is_date(asked.get("execution_date")):
            return 422, error("invalid_date")
        if amount > account["balance"]:
            return 409, error("insufficient_funds")
        account["balance"] -= amount
        recipient["payments"] += 1
        made = {
            "payment_id": f"pmt_{secrets.token_hex(6)}",
            "customer_id": recipient["customer_id"],
            "recipient_id": recipient["recipient_id"],
            "amount": amount,
            "currency": account["currency"],
            "execution_date": asked["execution_date"],
            "state": "accepted",
            "reference": asked.get("reference"),
            "metadata": asked.get("metadata", {}),
            "created_at": datetime.now(UTC).isoformat(),
        }
        self.payments.append(made)
        return 201, made


def error(code: str) -> Json:
    return {"error": {"code": code}}


def is_date(text: object) -> bool:
    try:
        return isinstance(text, str) and bool(date.fromisoformat(text))
    except ValueError:
        return False


def create_app(bank: Bank) -> FastAPI:
    """The API needs `Authorization: Bearer <key>`; what begins with `/_` is for whoever sets the scene."""
    app = FastAPI(openapi_url=None)

    @app.middleware("http")
    async def _authorised(request: Request, call_next: Any) -> Response:
        ours = request.url.path.startswith("/_")
        if not ours and request.headers.get("authorization") != f"Bearer {bank.api_key}":
            return JSONResponse(error("unauthorized"), 401)
        return await call_next(request)

    @app.get("/customers/{customer_id}/account")
    async def account(customer_id: str) -> Response:
        found = bank.accounts.get(customer_id)
        return JSONResponse(found) if found else JSONResponse(error("account_not_found"), 404)

    @app.get("/recipients/{recipient_id}")
    async def recipient(recipient_id: str) -> Response:
        found = bank.recipients.get(recipient_id)
        return JSONResponse(found) if found else JSONResponse(error("recipient_not_found"), 404)

    @app.get("/payments")
    async def payments(operation: str) -> Response:
        found = [each for each in bank.payments if each["metadata"].get("counterseal_operation") == operation]
        return JSONResponse({"payments": found[:100], "has_more": len(found) > 100})

    @app.post("/payments")
    async def pay(request: Request) -> Response:
        asked: Json = await request.json()
        key, text = request.headers.get("idempotency-key"), json.dumps(asked, sort_keys=True)
        if key is None:
            return JSONResponse(error("idempotency_key_required"), 400)
        fault = bank.faults.popleft() if bank.faults else ""
        if fault == "503":
            return JSONResponse(error("unavailable"), 503)
        known = bank.keys.get(key)
        if known is not None and known[0] != text:
            return JSONResponse(error("idempotency_conflict"), 409)
        status, answer = known[1:] if known is not None else bank.pay(asked)
        bank.keys[key] = (text, status, answer)
        if fault == "pay_then_hang":
            await asyncio.sleep(3600)
        if fault == "pay_then_503":
            return JSONResponse(error("unavailable"), 503)
        if fault == "other_amount":
            answer = answer | {"amount": answer.get("amount", 0) + 1}
        return JSONResponse(answer, status)

    _set_the_scene(app, bank)
    return app


def _set_the_scene(app: FastAPI, bank: Bank) -> None:
    @app.put("/_accounts/{customer_id}")
    async def account(customer_id: str, request: Request) -> Response:
        given: Json = await request.json()
        bank.accounts[customer_id] = {
            "account_id": given.get("account_id", f"acc_{next(bank.numbers):012d}"),
            "customer_id": customer_id,
            "currency": given.get("currency", "EUR"),
            "balance": given.get("balance", 1_000_000),
        }
        return JSONResponse(bank.accounts[customer_id])

    @app.put("/_recipients/{recipient_id}")
    async def recipient(recipient_id: str, request: Request) -> Response:
        given: Json = await request.json()
        bank.recipients[recipient_id] = {
            "recipient_id": recipient_id,
            "customer_id": given["customer_id"],
            "name": given.get("name", "Ada Example"),
            "added_at": given.get("added_at", datetime.now(UTC).isoformat()),
            "payments": given.get("payments", 0),
        }
        return JSONResponse(bank.recipients[recipient_id])

    @app.post("/_faults")
    async def faults(request: Request) -> Response:
        """What happens to the next payments: `503`, `pay_then_503`, `pay_then_hang`, `other_amount`."""
        bank.faults.extend(await request.json())
        return Response(status_code=204)

    @app.get("/_payments")
    async def made() -> Response:
        return JSONResponse({"payments": bank.payments})
