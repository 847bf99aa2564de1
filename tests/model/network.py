"""The network between the service and the sandbox, in this process: a request can be refused a connection, be held on
its way or on its way back, and be lost; one that is held can arrive when nobody waits for it any more."""

import asyncio
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl

import httpx
from starlette.applications import Starlette

Disturbance = Literal["no_connection", "held_before", "held_after"]


@dataclass(frozen=True)
class Post:
    """A refund that was asked for over the network, whether or not it arrived."""

    key: str
    body: bytes
    operation: str
    payment: str


@dataclass
class Held:
    """A refund request that hangs. `answer` is None until it has arrived."""

    request: httpx.Request
    post: Post
    go_on: asyncio.Future[Literal["answer", "lose"]]
    answer: httpx.Response | None
    waited_for: bool = True


@dataclass
class Network(httpx.AsyncBaseTransport):
    """Carries requests to the gateway's app (host `gateway`) and the store's (any other)."""

    gateway: Starlette
    store: Starlette
    disturbances: list[tuple[Disturbance, str]] = field(default_factory=list)
    """What happens to the next refund of a payment."""
    held: list[Held] = field(default_factory=list)
    posts: list[Post] = field(default_factory=list)
    stuck: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a request hangs."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        tell = request.extensions["trace"]
        post = _post(request)
        disturbance = self._next(post.payment) if post else None
        if disturbance == "no_connection":
            raise httpx.ConnectError("refused", request=request)
        await tell("connection.connect_tcp.complete", {})
        await tell("http11.send_request_headers.started", {})
        if post is not None:
            self.posts.append(post)
        if post is None or disturbance is None:
            response = await self._carry(request)
        else:
            response = await self._hold(request, post, arrived=disturbance == "held_after")
        await tell("http11.receive_response_headers.complete", {})
        return response

    def _next(self, payment: str) -> Disturbance | None:
        for each in self.disturbances:
            if each[1] == payment:
                self.disturbances.remove(each)
                return each[0]
        return None

    async def _hold(self, request: httpx.Request, post: Post, *, arrived: bool) -> httpx.Response:
        held = Held(
            request,
            post,
            asyncio.get_running_loop().create_future(),
            await self._carry(request) if arrived else None,
        )
        self.held.append(held)
        self.stuck.set()
        try:
            if await held.go_on == "lose":
                raise httpx.ReadError("lost", request=request)
            await self.arrive(held)
        finally:
            held.waited_for = False
            if held.answer is not None:
                self.held.remove(held)
        assert held.answer is not None
        return held.answer

    async def arrive(self, held: Held) -> None:
        """The request reaches the gateway, if it has not yet; whether or not anybody still waits for the answer."""
        if held.answer is None:
            held.answer = httpx.Response(500)
            try:
                held.answer = await self._carry(held.request)
            except httpx.TransportError:
                if held.waited_for:
                    raise

    async def _carry(self, request: httpx.Request) -> httpx.Response:
        app = self.gateway if request.url.host == "gateway" else self.store
        body = await request.aread()
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "scheme": request.url.scheme,
            "path": request.url.path,
            "raw_path": request.url.raw_path.partition(b"?")[0],
            "query_string": request.url.query,
            "server": (request.url.host, 80),
            "client": ("127.0.0.1", 1),
            "root_path": "",
        }
        status, headers, parts = 0, list[tuple[bytes, bytes]](), list[bytes]()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], message["headers"]
            else:
                parts.append(message.get("body", b""))

        try:
            await app(scope, receive, send)
        except ConnectionResetError:
            raise httpx.ReadError("the connection was dropped", request=request) from None
        return httpx.Response(status, headers=headers, stream=httpx.ByteStream(b"".join(parts)))


def _post(request: httpx.Request) -> Post | None:
    if request.method != "POST" or request.url.path != "/v1/refunds":
        return None
    form = dict(parse_qsl(request.content.decode()))
    return Post(
        key=request.headers["idempotency-key"],
        body=request.content,
        operation=form["metadata[counterseal_operation]"],
        payment=form.get("charge", ""),
    )
