"""The gateway's control surface for demos and tests: the record of what happened, the fault script, the dashboard."""

import json
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox import faults, refunds
from sandbox.models import MAX_AMOUNT, Identifier, Line, describe
from sandbox.refunds import FinalStatus
from sandbox.state import State, to_iso
from sandbox.stripe_shapes import StripeError
from sandbox.webhooks.courier import Courier


class StatusChange(Line):
    status: FinalStatus


class Completion(Line):
    status: FinalStatus = "succeeded"
    payment_id: Identifier | None = None


class DashboardRefund(Line):
    payment_id: Identifier
    amount: Annotated[int, Field(ge=1, le=MAX_AMOUNT)]


class Control:
    def __init__(self, state: State, courier: Courier) -> None:
        self._state = state
        self._courier = courier

    def routes(self) -> list[Route]:
        return [
            Route("/_effects", self.effects),
            Route("/_requests", self.requests),
            Route("/_faults", self.faults, methods=["GET", "POST", "DELETE"]),
            Route("/_refunds", self.refund_in_dashboard, methods=["POST"]),
            Route("/_refunds/pending", self.complete_pending, methods=["POST"]),
            Route("/_refunds/{refund_id}", self.change_refund, methods=["POST"]),
        ]

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

    async def change_refund(self, request: Request) -> Response:
        body, refund_id = await request.body(), request.path_params["refund_id"]

        def change() -> dict[str, Any]:
            return refunds.set_status(self._state, refund_id, StatusChange.model_validate_json(body).status)

        return self._apply(change)

    async def complete_pending(self, request: Request) -> Response:
        body = await request.body()

        def complete() -> dict[str, Any]:
            wanted = Completion.model_validate_json(body or b"{}")
            return {"refunds": refunds.complete_pending(self._state, wanted.status, wanted.payment_id)}

        return self._apply(complete)

    async def refund_in_dashboard(self, request: Request) -> Response:
        body = await request.body()

        def make() -> dict[str, Any]:
            wanted = DashboardRefund.model_validate_json(body)
            return refunds.create_in_dashboard(self._state, wanted.payment_id, wanted.amount)

        return self._apply(make)

    def _apply(self, change: Callable[[], dict[str, Any]]) -> Response:
        """Runs a change in a transaction and answers what it gives, or why it cannot be."""
        try:
            with self._state.transaction():
                changed = change()
            self._courier.wake()
            return JSONResponse(changed)
        except ValidationError as error:
            return _unprocessable(describe(error))
        except StripeError as error:
            return JSONResponse(json.loads(error.answer.body), error.answer.status)


def _unprocessable(message: str) -> Response:
    return JSONResponse({"error": {"message": message}}, 422)
