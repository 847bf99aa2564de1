"""What the store's endpoints have in common: the bearer key, its errors, and writes that happen once per key."""

import hmac
import json
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import Field, StringConstraints, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sandbox import idempotency, stripe_shapes
from sandbox.idempotency import Stored, Verdict
from sandbox.models import Line, describe
from sandbox.state import State

SCOPE = "store"
OPERATION_METADATA = "counterseal_operation"
Text = Annotated[str, StringConstraints(max_length=500)]
Answered = tuple[int, dict[str, Any]]


class Change(Line):
    """The body of a write without details."""

    reason: Text | None = None
    metadata: dict[str, Text] = Field(default_factory=dict[str, Text])

    @property
    def operation_id(self) -> str | None:
        return self.metadata.get(OPERATION_METADATA)


C = TypeVar("C", bound=Change)


class Endpoints:
    """Endpoints on a state, for the bearer of `key`."""

    def __init__(self, state: State, key: str) -> None:
        self._state = state
        self._authorization = f"Bearer {key}".encode()

    async def once(self, request: Request, model: type[C], execute: Callable[[C], Answered]) -> Response:
        """One write: checked, then executed once per idempotency key; the first answer is given again afterwards."""
        body = await request.body()
        if not self.authorized(request):
            return unauthorized()
        key = request.headers.get("idempotency-key", "")
        if not 1 <= len(key) <= 255:
            return error(400, "idempotency_key_required", "send an Idempotency-Key of 1 to 255 characters")
        try:
            change = model.model_validate_json(body or b"{}")
        except ValidationError as problem:
            return error(422, "invalid_request", describe(problem))
        print_ = idempotency.fingerprint(request.method, request.url.path, change.model_dump(mode="json"))
        with self._state.transaction():
            stored = idempotency.find(self._state, SCOPE, key)
            verdict = idempotency.judge(stored, print_, self._state.now_us(), in_flight=False)
            if verdict is Verdict.MISMATCH:
                return error(409, "idempotency_conflict", "this Idempotency-Key came with another request before")
            if verdict is Verdict.REPLAY and stored is not None:
                return _json(stored.status, stored.body, {"Idempotent-Replayed": "true"})
            status, content = execute(change)
            answer = json.dumps(content, separators=(",", ":")).encode()
            kept = Stored(print_, status, answer, stripe_shapes.new_id("req"), self._state.now_us())
            idempotency.keep(self._state, SCOPE, key, kept)
        return _json(status, answer)

    def authorized(self, request: Request) -> bool:
        return hmac.compare_digest(request.headers.get("authorization", "").encode(), self._authorization)


def refusal(http: int, code: str, message: str, **more: str) -> Answered:
    """An error as `once` keeps it, under the HTTP status `http`."""
    return http, {"error": {"code": code, **more, "message": message}}


def error(status: int, code: str, message: str) -> Response:
    return JSONResponse(refusal(status, code, message)[1], status)


def not_found(what: str) -> Response:
    return error(404, "not_found", f"no such {what}")


def unauthorized() -> Response:
    body = refusal(401, "unauthorized", "send the store's key as a bearer token")[1]
    return JSONResponse(body, 401, {"WWW-Authenticate": "Bearer"})


def _json(status: int, body: bytes, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, headers, "application/json")
