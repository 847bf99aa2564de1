"""Temporal's UI as the embedded stack shows it.

The development server can be told where payloads are decoded, and not that the browser is to send the session along,
nor what to say to people who may not see them. So its UI stands behind this, which passes everything on and says so in
the UI's settings.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from runtime.stack.errors import StackError
from runtime.stack.ports import HOST

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
# Of one connection alone (https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1).
_OF_A_CONNECTION = frozenset({"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"})


def application(behind: str, api: str) -> Starlette:
    """Passes on to the UI at the URL `behind`; `api` is where people sign in."""
    base = httpx.URL(behind)
    # A history that is followed is answered when it goes on.
    client = httpx.AsyncClient(base_url=base, trust_env=False, timeout=httpx.Timeout(None, connect=5))

    async def forward(request: Request) -> Response:
        query: bytes = request.scope["query_string"]
        # As it was sent: the ids of workflows have slashes in them.
        raw_path = request.scope["raw_path"] + (b"?" + query if query else b"")
        asked = client.build_request(
            request.method,
            base.copy_with(raw_path=raw_path),
            headers=[(name, value) for name, value in request.headers.items() if name not in _OF_A_CONNECTION],
            content=await request.body(),
        )
        try:
            answer = await client.send(asked, stream=True)
        except httpx.TransportError:
            return PlainTextResponse("Temporal's UI does not answer just now.", 502)
        passed = StreamingResponse(answer.aiter_raw(), answer.status_code, background=BackgroundTask(answer.aclose))
        passed.raw_headers = [each for each in answer.headers.raw if each[0].lower().decode() not in _OF_A_CONNECTION]
        return passed

    async def settings(request: Request) -> Response:
        try:
            said = (await client.get("/api/v1/settings")).raise_for_status().json()
        except httpx.HTTPError:
            return PlainTextResponse("Temporal's UI does not answer just now.", 502)
        said["Codec"] |= {
            "IncludeCredentials": True,
            "DefaultErrorMessage": "Payloads are shown to operators who are signed in to Counterseal",
            "DefaultErrorLink": f"{api}/signin",
        }
        return JSONResponse(said)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with client:
            yield

    routes = [Route("/api/v1/settings", settings), Route("/{path:path}", forward, methods=_METHODS)]
    return Starlette(routes=routes, lifespan=lifespan)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals are the stack's to act on."""
        yield


@asynccontextmanager
async def shown(port: int, behind: str, api: str) -> AsyncGenerator[None]:
    """Serves it on `port` of this machine while the context lasts. Raises StackError when the port is taken."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen()
        except OSError as problem:
            raise StackError(f"Temporal's UI cannot be shown on port {port}: {problem.strerror}") from None
        config = uvicorn.Config(
            application(behind, api),
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=1,
        )
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield
        finally:
            server.should_exit = True
            await serving
