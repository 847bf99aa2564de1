"""The control surface for demos and tests: what is captured, what really happened, the fault script, webhooks."""

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import httpx
from pydantic import Field, StringConstraints, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sandbox import faults
from sandbox.models import Identifier, Line, Word, describe
from sandbox.paypal import refunds, shapes, tokens, webhooks
from sandbox.paypal.api import Money
from sandbox.paypal.refunds import FinalStatus
from sandbox.paypal.shapes import Capture, PayPalError
from sandbox.state import State, to_iso

_Value = Annotated[str, StringConstraints(max_length=32)]


class CaptureLine(Line):
    """A captured payment. Captures of one `order_id` belong to one order."""

    order_id: Identifier | None = None
    amount: Money
    method: Word = "card"
    pending: bool = False
    disputed: bool = False


class StatusChange(Line):
    status: FinalStatus


class DashboardRefund(Line):
    payment_id: Identifier
    amount: _Value


class Webhook(Line):
    """An event about a refund, or a dispute about a capture. Without a `url` it is only answered, not sent."""

    event_type: Literal[
        "PAYMENT.CAPTURE.REFUNDED",
        "PAYMENT.CAPTURE.REVERSED",
        "PAYMENT.REFUND.PENDING",
        "PAYMENT.REFUND.FAILED",
        "PAYMENT.AUTHORIZATION.VOIDED",
        "CUSTOMER.DISPUTE.CREATED",
        "CUSTOMER.DISPUTE.UPDATED",
        "CUSTOMER.DISPUTE.RESOLVED",
    ]
    subject: Identifier
    webhook_id: Identifier
    url: Annotated[str, Field(pattern=r"^https?://")] | None = None


class Control:
    def __init__(self, state: State) -> None:
        self._state = state

    def routes(self) -> list[Route]:
        return [
            Route("/_captures/{capture_id}", self.put_capture, methods=["PUT"]),
            Route("/_effects", self.effects),
            Route("/_requests", self.requests),
            Route("/_faults", self.faults, methods=["GET", "POST", "DELETE"]),
            Route("/_refunds", self.refund_in_dashboard, methods=["POST"]),
            Route("/_refunds/{refund_id}", self.change_refund, methods=["POST"]),
            Route("/_tokens", self.revoke_tokens, methods=["DELETE"]),
            Route("/_webhooks", self.webhook, methods=["POST"]),
            Route("/_root", self.root),
            Route("/v1/notifications/certs/{name}", self.certificate),
        ]

    async def put_capture(self, request: Request) -> Response:
        body, capture_id = await request.body(), request.path_params["capture_id"]

        def put() -> dict[str, Any]:
            line = CaptureLine.model_validate_json(body)
            found = Capture(
                capture_id=capture_id,
                order_id=line.order_id or f"ORDER-{capture_id}",
                method=line.method,
                amount=shapes.smallest_units(line.amount.value, line.amount.currency_code),
                currency=line.amount.currency_code,
                pending=line.pending,
                disputed=line.disputed,
                created_us=self._state.now_us(),
            )
            refunds.put_capture(self._state, found)
            return shapes.capture(_base(request), found, refunds.refunded(self._state, capture_id))

        return self._apply(put)

    async def effects(self, request: Request) -> Response:
        return JSONResponse({"effects": refunds.effects(self._state)})

    async def requests(self, request: Request) -> Response:
        names = ("method", "path", "operation", "idempotency_key", "done", "status")
        rows = self._state.db.execute("SELECT * FROM requests ORDER BY seq")
        return JSONResponse({"requests": [{**{n: row[n] for n in names}, "at": to_iso(row["at_us"])} for row in rows]})

    async def faults(self, request: Request) -> Response:
        body = await request.body()
        try:
            with self._state.transaction():
                if request.method == "POST":
                    faults.append(self._state, faults.parse(body))
                elif request.method == "DELETE":
                    faults.clear(self._state)
                return JSONResponse({"faults": faults.left(self._state)})
        except faults.BadScriptError as error:
            return _unprocessable(str(error))

    async def refund_in_dashboard(self, request: Request) -> Response:
        body = await request.body()

        def make() -> dict[str, Any]:
            wanted = DashboardRefund.model_validate_json(body)
            made = refunds.create_in_dashboard(self._state, wanted.payment_id, wanted.amount)
            return refunds.shape(self._state, _base(request), made)

        return self._apply(make)

    async def change_refund(self, request: Request) -> Response:
        body, refund_id = await request.body(), request.path_params["refund_id"]

        def change() -> dict[str, Any]:
            status = StatusChange.model_validate_json(body).status
            return refunds.shape(self._state, _base(request), refunds.set_status(self._state, refund_id, status))

        return self._apply(change)

    async def revoke_tokens(self, request: Request) -> Response:
        with self._state.transaction():
            tokens.revoke_all(self._state)
        return JSONResponse({})

    async def webhook(self, request: Request) -> Response:
        """Answers the headers and the body, and with a `url` the status that its delivery got."""
        content = await request.body()
        sent: dict[str, str] = {}
        url: str | None = None

        def make() -> dict[str, Any]:
            nonlocal url
            wanted = Webhook.model_validate_json(content)
            url = wanted.url
            body = webhooks.event(self._state, _base(request), wanted.event_type, wanted.subject)
            sent.update(webhooks.headers(self._state, _base(request), wanted.webhook_id, body))
            return {"headers": sent, "body": body.decode()}

        answer = self._apply(make)
        if answer.status_code != 200 or url is None:
            return answer
        made = json.loads(bytes(answer.body))
        async with httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=5) as client:
            try:
                delivered = await client.post(
                    url, content=made["body"], headers=sent | {"Content-Type": "application/json"}
                )
            except httpx.HTTPError:
                return JSONResponse(made | {"status": None})
        return JSONResponse(made | {"status": delivered.status_code})

    async def root(self, request: Request) -> Response:
        with self._state.transaction():
            return PlainTextResponse(webhooks.signer(self._state).root)

    async def certificate(self, request: Request) -> Response:
        with self._state.transaction():
            by = webhooks.signer(self._state)
        if request.path_params["name"] != by.name:
            return PlainTextResponse("not found", 404)
        return PlainTextResponse(by.leaf)

    def _apply(self, change: Callable[[], dict[str, Any]]) -> Response:
        """Runs a change in a transaction and answers what it says, or why it cannot be."""
        try:
            with self._state.transaction():
                return JSONResponse(change())
        except ValidationError as error:
            return _unprocessable(describe(error))
        except PayPalError as error:
            return JSONResponse(json.loads(error.answer.body), error.answer.status)


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")


def _unprocessable(message: str) -> Response:
    return JSONResponse({"error": {"message": message}}, 422)
