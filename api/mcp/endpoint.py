"""`/mcp` on the wire: who asks and from where, what is a message at all, and the SDK's transport for the rest.

Streamable HTTP without sessions, of 2026-07-28 and of the revisions with a handshake before it. An answer is JSON
unless there is something to say before it.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from fastapi.responses import JSONResponse
from mcp.server.streamable_http import check_accept_headers
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import INVALID_REQUEST, PARSE_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import JsonValue
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from api.authentication import authenticate
from api.context import Context
from api.edge import json_object
from api.mcp.listening import Listeners
from api.mcp.reaching import check_reach
from api.mcp.server import McpServer
from api.problems import Refused, refuse, taken_note_of
from schemas.codes import Code
from schemas.replies import Explanation

PATH = "/mcp"
_METHODS = ("GET", "POST")
_VERSION = "mcp-protocol-version"


class Endpoint:
    """ASGI application of `/mcp`; answers while `running`."""

    def __init__(self) -> None:
        self.route = Route(PATH, self)
        self._listeners = Listeners()
        self._in_json: StreamableHTTPSessionManager | None = None
        self._streaming: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        server = McpServer(self._listeners)
        self._in_json = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
        self._streaming = StreamableHTTPSessionManager(server, stateless=True)
        async with self._in_json.run(), self._streaming.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, services = Request(scope, receive, send), scope["app"].state.context
        scope["route"] = self.route
        check_reach(request, services)
        run = await authenticate(request, services, "mcp", "run")
        if request.method == "POST":
            await self._message(request, services, scope, receive, send)
        elif request.method == "GET" and _is_of_handshake(request):
            _, takes_stream = check_accept_headers(request)
            if not takes_stream:
                raise _invalid(HTTPStatus.NOT_ACCEPTABLE, "the answer is a text/event-stream, which must be accepted")
            await self._listeners.stream(request, services, run)(scope, receive, send)
        else:
            allowed = _METHODS if _is_of_handshake(request) else ("POST",)
            raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": ", ".join(allowed)})

    async def _message(self, request: Request, services: Context, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            message = await json_object(request)
            manager = self._manager(request, message)
        except Refused as refused:
            await _protocol_error(await taken_note_of(request, services, refused))(scope, receive, send)
            return
        body = bytes(request.state.body_read)
        await manager.handle_request(scope, _again(body, receive), send)

    def _manager(self, request: Request, message: dict[str, JsonValue]) -> StreamableHTTPSessionManager:
        """The transport that answers this message. Raises Refused for what is none, and where no answer is accepted."""
        if not is_message(message):
            raise _invalid(HTTPStatus.BAD_REQUEST, "the body must be one JSON-RPC request or notification")
        takes_json, takes_stream = check_accept_headers(request)
        if not takes_json:
            raise _invalid(HTTPStatus.NOT_ACCEPTABLE, "the answer may be application/json, which must be accepted")
        if message["method"] == "subscriptions/listen" and not takes_stream:
            raise _invalid(HTTPStatus.NOT_ACCEPTABLE, "the answer is a text/event-stream, which must be accepted")
        # The later transport streams once there is something to say; the earlier one would always.
        streams = takes_stream and (not _is_of_handshake(request) or _wants_progress(message))
        manager = self._streaming if streams else self._in_json
        if manager is None:
            raise RuntimeError("it is not running")
        return manager


def is_message(body: dict[str, JsonValue]) -> bool:
    """Whether it is a JSON-RPC request or notification: https://www.jsonrpc.org/specification#request_object"""
    number = body.get("id", 0)
    return (
        body.get("jsonrpc") == "2.0"
        and isinstance(body.get("method"), str)
        and isinstance(number, str | int)
        and not isinstance(number, bool)
        and isinstance(body.get("params", {}), dict)
    )


def _is_of_handshake(request: Request) -> bool:
    """Whether it is of a revision before 2026-07-28; the SDK judges all that are said to be later."""
    return request.headers.get(_VERSION, HANDSHAKE_PROTOCOL_VERSIONS[-1]) in HANDSHAKE_PROTOCOL_VERSIONS


def _wants_progress(message: dict[str, Any]) -> bool:
    meta = message.get("params", {}).get("_meta")
    return isinstance(meta, dict) and "progressToken" in meta


def _invalid(status: HTTPStatus, problem: str) -> Refused:
    return refuse(Code.INVALID_INPUT, Explanation(values={"problem": problem}), status=status)


def _protocol_error(refused: Refused) -> Response:
    """An error that belongs to no request, as there was none: our words, and the reply as its data."""
    reply = refused.reply
    is_no_json = refused.status == HTTPStatus.BAD_REQUEST and reply.code is Code.INVALID_INPUT
    error = {
        "code": PARSE_ERROR if is_no_json else INVALID_REQUEST,
        "message": reply.message,
        "data": reply.model_dump(mode="json", exclude_none=True),
    }
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, refused.status, refused.headers)


def _again(body: bytes, receive: Receive) -> Receive:
    """The body that was read, then whatever else comes."""
    read = False

    async def replayed() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
