"""What holds of every HTTP exchange, whatever answered: the version of replies, and the end of bodies nobody reads."""

from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.edge import MAX_BYTES
from schemas.replies import VERSION

VERSION_HEADER = "Counterseal-Version"


def raw_headers(headers: Mapping[str, str]) -> dict[bytes, bytes]:
    """Headers as ASGI has them."""
    return {name.lower().encode("latin-1"): value.encode("latin-1") for name, value in headers.items()}


def with_headers(start: Message, headers: Mapping[bytes, bytes]) -> None:
    """Have a response start with these headers, in place of its own of the same names."""
    own = [each for each in start.get("headers", ()) if each[0].lower() not in headers]
    start["headers"] = [*own, *headers.items()]


_VERSION = raw_headers({VERSION_HEADER: VERSION})
_LAST = _VERSION | raw_headers({"Connection": "close"})


class Envelope:
    """ASGI middleware. After an answer that left more of the body unread than a request may have, the connection is
    closed: otherwise the server would go on reading, and throw away what comes, for as long as somebody sends."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        unread = _may_be_long(Headers(scope=scope))

        async def watched_receive() -> Message:
            nonlocal unread
            message = await receive()
            unread = unread and message["type"] == "http.request" and message.get("more_body", False)
            return message

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                with_headers(message, _LAST if unread else _VERSION)
            await send(message)

        await self._app(scope, watched_receive, send_with_headers)


def _may_be_long(headers: Headers) -> bool:
    """Whether the request says that its body is longer than any that is read, or does not say how long it is."""
    if "transfer-encoding" in headers:
        return True
    declared = headers.get("content-length", "0")
    return not declared.isdecimal() or int(declared[:20]) > MAX_BYTES
