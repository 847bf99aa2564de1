"""The outbox's API: a customer's contact, text messages to them, and notes that are kept about them."""

import hashlib
import itertools
import json
from dataclasses import dataclass, field
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

Json = dict[str, Any]
KINDS = ("messages", "notes")


@dataclass
class Outbox:
    """Everything it knows, in memory. `keys`: the first answer of each idempotency key, and what it was asked."""

    api_key: str
    contacts: dict[str, str] = field(default_factory=dict[str, str])
    kept: dict[str, list[Json]] = field(default_factory=lambda: {kind: list[Json]() for kind in KINDS})
    keys: dict[str, tuple[str, Json]] = field(default_factory=dict[str, tuple[str, Json]])
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def contact(self, customer_id: str) -> Json:
        contact_id = f"ctc_{hashlib.sha256(customer_id.encode()).hexdigest()[:12]}"
        self.contacts[contact_id] = customer_id
        return {"contact_id": contact_id, "customer_id": customer_id}

    def add(self, kind: str, asked: Json) -> tuple[int, Json]:
        """(status, answer). Keeps it or says why not."""
        customer_id = self.contacts.get(str(asked.get("contact_id")))
        if customer_id is None:
            return 404, error("contact_not_found")
        text, metadata = asked.get("text"), cast(object, asked.get("metadata", {}))
        if not isinstance(text, str) or not 1 <= len(text) <= 1000 or not isinstance(metadata, dict):
            return 422, error("invalid_text")
        made: Json = {
            "id": f"{kind[:3]}_{next(self.numbers):012d}",
            "contact_id": asked["contact_id"],
            "customer_id": customer_id,
            "text": text,
            "metadata": cast(Json, metadata),
        }
        self.kept[kind].append(made)
        return 201, made


def error(code: str) -> Json:
    return {"error": {"code": code}}


def create_app(outbox: Outbox) -> FastAPI:
    """The API needs `Authorization: Bearer <key>`; what begins with `/_` is for whoever looks what really happened."""
    app = FastAPI(openapi_url=None)

    @app.middleware("http")
    async def _authorised(request: Request, call_next: Any) -> Response:
        ours = request.url.path.startswith("/_")
        if not ours and request.headers.get("authorization") != f"Bearer {outbox.api_key}":
            return JSONResponse(error("unauthorized"), 401)
        return await call_next(request)

    @app.get("/contacts/{customer_id}")
    async def contact(customer_id: str) -> Response:
        return JSONResponse(outbox.contact(customer_id))

    @app.get("/_kept")
    async def kept(customer_id: str) -> Response:
        """What really went out to a customer and what is kept about them."""
        return JSONResponse(
            {kind: [each for each in of if each["customer_id"] == customer_id] for kind, of in outbox.kept.items()}
        )

    for kind in KINDS:
        _add_kind(app, outbox, kind)
    return app


def _add_kind(app: FastAPI, outbox: Outbox, kind: str) -> None:
    @app.get(f"/{kind}")
    async def find(operation: str) -> Response:
        found = [each for each in outbox.kept[kind] if each["metadata"].get("counterseal_operation") == operation]
        return JSONResponse({kind: found[:100], "has_more": len(found) > 100})

    @app.post(f"/{kind}")
    async def add(request: Request) -> Response:
        asked: Json = await request.json()
        key, text = request.headers.get("idempotency-key"), json.dumps([kind, asked], sort_keys=True)
        if key is None:
            return JSONResponse(error("idempotency_key_required"), 400)
        known = outbox.keys.get(key)
        if known is not None and known[0] != text:
            return JSONResponse(error("idempotency_conflict"), 409)
        if known is not None:
            return JSONResponse(known[1], 201)
        status, answer = outbox.add(kind, asked)
        if status == 201:
            outbox.keys[key] = (text, answer)
        return JSONResponse(answer, status)
