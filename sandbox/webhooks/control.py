"""The control surface of webhooks: endpoints, what was delivered, and how to make deliveries awkward."""

import ipaddress
from collections.abc import Callable
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.models import Identifier, Line, describe
from sandbox.state import State
from sandbox.stripe_shapes import Shape, new_id, refund
from sandbox.webhooks import events, queue
from sandbox.webhooks.courier import Courier
from sandbox.webhooks.events import AUTOMATIC
from sandbox.webhooks.signing import Forgery

Count = Annotated[int, Field(ge=1, le=1000)]


def loopback(url: str) -> str:
    """The URL, if it is `http` on this machine. Raises ValueError."""
    parts = urlsplit(url)
    try:
        local = parts.hostname == "localhost" or ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        local = False
    if parts.scheme != "http" or not local or parts.username is not None or parts.fragment:
        raise ValueError("must be an http URL on a loopback address")
    return url


class Endpoint(Line):
    url: Annotated[str, AfterValidator(loopback)]
    secret: Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class Repeat(Line):
    """The last events once more, in any order."""

    do: Literal["repeat"]
    last: Count = 1


class Reverse(Line):
    """The last events once more, the newest first, one by one."""

    do: Literal["reverse"]
    last: Count = 10


class Hold(Line):
    """Nothing is sent until released."""

    do: Literal["hold"]


class Release(Line):
    """What was held is sent; the newest first, one by one, if so wanted."""

    do: Literal["release"]
    newest_first: bool = False


class UnknownObject(Line):
    """A genuine event about a refund that was never made; with the operation id given, if any."""

    do: Literal["unknown_object"]
    operation_id: Identifier | None = None


class Unrelated(Line):
    """A genuine event about no refund and no payment."""

    do: Literal["unrelated"]


class Forge(Line):
    """The last event (or one of a refund that was never made) in a way that must not be believed. Sent once."""

    do: Literal["forge"]
    how: Forgery = "wrong_signature"


class BeforeAnswer(Line):
    """The next refunds' webhooks arrive before the answer to the request does."""

    do: Literal["before_answer"]
    times: Count = 1


Action = Repeat | Reverse | Hold | Release | UnknownObject | Unrelated | Forge | BeforeAnswer
_ACTION: TypeAdapter[Action] = TypeAdapter(Annotated[Action, Field(discriminator="do")])


class _NowhereError(Exception):
    """No endpoint is registered."""


class WebhookControl:
    def __init__(self, state: State, courier: Courier) -> None:
        self._state = state
        self._courier = courier

    def routes(self) -> list[Route]:
        return [
            Route("/_webhooks", self.webhooks, methods=["GET", "PUT", "POST", "DELETE"]),
            Route("/_webhooks/deliveries", self.deliveries),
        ]

    async def webhooks(self, request: Request) -> Response:
        body = await request.body()
        match request.method:
            case "PUT":
                return self._apply(lambda: self._register(Endpoint.model_validate_json(body)))
            case "POST":
                return self._apply(lambda: self._act(_ACTION.validate_json(body)))
            case "DELETE":
                return self._apply(lambda: queue.unregister_all(self._state))
            case _:
                return JSONResponse(queue.standing(self._state))

    async def deliveries(self, request: Request) -> Response:
        pending = queue.standing(self._state)["pending"]
        return JSONResponse({"deliveries": queue.attempts(self._state), "pending": pending})

    def _apply(self, change: Callable[[], Any]) -> Response:
        """Runs a change in a transaction and answers how things stand, with the `events` that it sends."""
        try:
            with self._state.transaction():
                sent = change()
                standing = queue.standing(self._state)
        except ValidationError as error:
            return JSONResponse({"error": {"message": describe(error)}}, 422)
        except _NowhereError:
            return JSONResponse({"error": {"message": "no endpoint is registered"}}, 409)
        self._courier.wake()
        return JSONResponse(standing | {"events": sent or []})

    def _register(self, endpoint: Endpoint) -> None:
        queue.register(self._state, endpoint.url, endpoint.secret)

    def _act(self, action: Action) -> list[str] | None:
        match action:
            case Hold():
                queue.set_mode(self._state, "held", 1)
            case Release():
                queue.set_mode(self._state, "held", 0)
                if action.newest_first:
                    queue.newest_first(self._state)
            case BeforeAnswer():
                queue.set_mode(self._state, "before_answer", action.times)
            case Repeat() | Reverse():
                return self._again(action.last, newest_first=isinstance(action, Reverse))
            case UnknownObject():
                return [self._record(*self._never_made(action.operation_id))]
            case Unrelated():
                return [self._record("balance.available", _BALANCE)]
            case Forge():
                return [self._forge(action.how)]
        return None

    def _again(self, count: int, *, newest_first: bool) -> list[str]:
        self._somewhere()
        chosen = queue.last_events(self._state, count)
        for event_id in chosen:
            queue.deliver(self._state, event_id)
        if newest_first:
            queue.newest_first(self._state)
        return chosen

    def _forge(self, how: Forgery) -> str:
        self._somewhere()
        last = queue.last_events(self._state, 1)
        chosen = last[0] if last else events.keep(self._state, *self._never_made(), None, AUTOMATIC, 1)
        queue.deliver(self._state, chosen, forgery=how)
        return chosen

    def _record(self, type_: str, shape: Shape) -> str:
        event_id = events.record(self._state, type_, shape)
        if event_id is None:
            raise _NowhereError
        return event_id

    def _never_made(self, operation_id: str | None = None) -> tuple[str, Shape]:
        metadata = {} if operation_id is None else {"counterseal_operation": operation_id}
        created = self._state.now_us() // 1_000_000
        return "refund.updated", refund(new_id("re"), new_id("ch"), 1000, "usd", "succeeded", None, metadata, created)

    def _somewhere(self) -> None:
        if not queue.endpoint_ids(self._state):
            raise _NowhereError


_BALANCE: Shape = {"object": "balance", "available": [], "livemode": False, "pending": []}
