"""Answers that do not arrive as they should.

Real socket behaviour needs the connection's transport, which `TransportProtocol` hands to the application as an ASGI
extension; without it (in-process) a drop is a ConnectionResetError.
"""

import asyncio
import json
import socket
import struct
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sandbox.stripe_shapes import Answer, Shape

EXTENSION = "sandbox.transport"
LOGIN_PAGE = (
    b"<!doctype html><html><head><title>Sign in</title></head><body><form><input name='user'></form></body></html>"
)
GARBAGE = b'{"id": "re_\xff\xfe\x00 \x1f\x8b not json'
ELSEWHERE = "http://elsewhere.invalid/v1/refunds"


class TransportProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, with the transport of the connection in each request's scope."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {EXTENSION: {"transport": self.transport}}


class Plain(Response):
    """An ordinary answer."""

    def __init__(self, answer: Answer, headers: dict[str, str], media_type: str = "application/json") -> None:
        super().__init__(answer.body, answer.status, {**headers, **answer.headers}, media_type)


class Dropped(Response):
    """No answer: the connection is closed, with a FIN, or with a RST when `reset`."""

    def __init__(self, *, reset: bool = False) -> None:
        super().__init__()
        self._reset = reset

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        transport: asyncio.Transport | None = scope.get("extensions", {}).get(EXTENSION, {}).get("transport")
        if transport is None:
            raise ConnectionResetError("the sandbox dropped the connection")
        if self._reset:
            # Linger of zero seconds: the kernel throws away what is queued and sends RST instead of FIN.
            sock = transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
        await _disconnected(receive)


class Delayed(Response):
    """Another answer, later. `over` is called when the time is over, whether or not the caller still waits."""

    def __init__(self, inner: Response, seconds: float, over: Callable[[], None]) -> None:
        super().__init__()
        self._inner, self._seconds, self._over = inner, seconds, over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self._over()
        await self._inner(scope, receive, send)


class SlowDrip(Response):
    """Headers at once, then a byte a second until the caller goes away."""

    def __init__(self, headers: dict[str, str], interval: float = 1.0) -> None:
        super().__init__(headers=headers, media_type="application/json")
        del self.headers["content-length"]
        self._interval = interval

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        gone = asyncio.create_task(_disconnected(receive))
        try:
            while not gone.done():
                await send({"type": "http.response.body", "body": b" ", "more_body": True})
                await asyncio.wait({gone}, timeout=self._interval)
        finally:
            gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def with_duplicate_keys(body: bytes) -> bytes:
    """The JSON object with some keys a second time, with other values."""
    shape: Shape = json.loads(body)
    lies: Shape = {"id": "re_other", "amount": 1, "currency": "xxx", "status": "failed", "data": [], "has_more": True}
    again = {key: lie for key, lie in lies.items() if key in shape and shape[key] != lie}
    return body[:-1] + b"," + json.dumps(again or {"object": "other"})[1:].encode()


def with_wrong_amount(body: bytes) -> bytes:
    """The same answer with every amount one minor unit higher."""

    def change(shape: Shape) -> Shape:
        return {"amount": shape["amount"] + 1}

    return _alter(body, change)


def with_wrong_id(body: bytes) -> bytes:
    """The same answer with other metadata: every value's last character is another one."""

    def change(shape: Shape) -> Shape:
        metadata: dict[str, str] = shape["metadata"]
        return {"metadata": {key: _other(value) for key, value in metadata.items()}}

    return _alter(body, change)


def _other(value: str) -> str:
    return value[:-1] + ("1" if value.endswith("0") else "0")


def _alter(body: bytes, change: Callable[[Shape], Shape]) -> bytes:
    shape: Shape = json.loads(body)
    if "error" in shape:
        return body
    if "data" in shape:
        shape["data"] = [each | change(each) for each in shape["data"]]
    else:
        shape |= change(shape)
    return json.dumps(shape, separators=(",", ":")).encode()
