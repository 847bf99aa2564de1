"""A proxy on loopback that adds a run's token, for a suite that sends none, and gives each request to the next of
several processes. All else it passes on as it is."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import cycle

import httpx
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from tests.serving import served

_HOP = (b"connection", b"keep-alive", b"transfer-encoding", b"content-length")


@asynccontextmanager
async def bearing(token: str, *urls: str) -> AsyncGenerator[str]:
    """The URL of the proxy to `urls`."""
    following = cycle(urls)
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=60) as client:

        async def proxy(scope: Scope, receive: Receive, send: Send) -> None:
            request = Request(scope, receive)
            headers = [(name, value) for name, value in request.headers.raw if name not in _HOP]
            forwarded = client.build_request(
                request.method,
                next(following) + request.url.path,
                headers=[*headers, (b"authorization", f"Bearer {token}".encode())],
                content=await request.body(),
            )
            answer = await client.send(forwarded, stream=True)
            response = StreamingResponse(answer.aiter_raw(), answer.status_code)
            response.raw_headers = [
                (name.lower(), value) for name, value in answer.headers.raw if name.lower() not in _HOP
            ]
            try:
                await response(scope, receive, send)
            finally:
                await answer.aclose()

        async with served(proxy) as base:
            yield base
