"""What an MCP server advertises (`tools/list` over streamable HTTP)."""

import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from importlib.metadata import version

import httpx2
import mcp.types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from gateways.http import bearer
from runtime.cli.advertised import MAX_BYTES, MAX_TOOLS, origin_of, refusal, within_deadline
from runtime.cli.errors import CommandError
from tools.comparing import Advertised

MAX_PAGES = 100
_CONNECT_SECONDS = 15


async def of_mcp(url: str, token: str | None) -> list[Advertised]:
    """All pages of the list. Raises CommandError."""
    origin = origin_of(url)
    # It logs what servers say, with tracebacks.
    logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
    guard = _Guard()
    tools: list[mcp.types.Tool] | None = None
    async with within_deadline(origin):
        # The SDK raises groups of anything, with the server's words in it; the guard knows better what happened.
        with suppress(Exception):
            tools = await _listed(url, token, guard)
    if tools is None:
        raise CommandError(f"{origin} {guard.problem or 'does not list its tools as the protocol wants it'}")
    return [_advertised(tool) for tool in tools]


async def _listed(url: str, token: str | None, guard: "_Guard") -> list[mcp.types.Tool] | None:
    """None, and the guard knows why, where the list does not end."""
    headers = {"Accept-Encoding": "identity"} | ({} if token is None else {"Authorization": bearer(token)})
    timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS)
    ours = mcp.types.Implementation(name="counterseal", version=version("counterseal"))
    async with (
        httpx2.AsyncClient(transport=guard, headers=headers, timeout=timeout, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http, max_sse_event_size=MAX_BYTES), client_info=ours) as client,
    ):
        tools: list[mcp.types.Tool] = []
        cursor = None
        for _ in range(MAX_PAGES):
            # Not `list_tools`: it leaves out tools that a client must not call, and those are worth knowing.
            page = await client.session.send_request(
                mcp.types.ListToolsRequest(params=mcp.types.PaginatedRequestParams(cursor=cursor)),
                mcp.types.ListToolsResult,
            )
            tools += page.tools
            cursor = page.next_cursor
            if len(tools) > MAX_TOOLS:
                guard.problem = f"lists more than {MAX_TOOLS} tools"
                return None
            if cursor is None:
                return tools
        guard.problem = f"lists its tools on more than {MAX_PAGES} pages"
        return None


def _advertised(tool: mcp.types.Tool) -> Advertised:
    """The protocol has no field for a tool's version. A title of the tool goes before that of its annotations:
    https://modelcontextprotocol.io/specification/2025-11-25/schema#tool"""
    said = {} if tool.annotations is None else tool.annotations.model_dump(by_alias=True, exclude_none=True)
    title = {} if tool.title is None else {"title": tool.title}
    return Advertised(tool.name, tool.description, tool.input_schema, tool.output_schema, {**said, **title})


class _Guard(httpx2.AsyncBaseTransport):
    """Follows no redirect, which the SDK would within an origin, and bounds all that is read."""

    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False)
        self._read = 0
        self.problem: str | None = None
        """Why the last message got no answer that is of use, in our words."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        # Other requests open a stream for the server's own messages, or end the session: a server may refuse both.
        is_message = request.method == "POST"
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            if is_message:
                self.problem = f"cannot be reached ({type(error).__name__})"
            raise
        problem = refusal(response.status_code)
        if response.headers.get("content-encoding", "identity") != "identity":
            problem = "answers in an encoding that was not asked for"
        if is_message:
            self.problem = problem
        if problem is not None and response.status_code < 400:
            await response.aclose()
            raise httpx2.ProtocolError("not to be read")
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_Bounded(self, response),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()

    def count(self, chunk: bytes) -> None:
        self._read += len(chunk)
        if self._read > MAX_BYTES:
            self.problem = f"answers with more than {MAX_BYTES} bytes"
            raise httpx2.ReadError("too much")


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, guard: _Guard, response: httpx2.Response) -> None:
        self._guard, self._response = guard, response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.aiter_raw():
            self._guard.count(chunk)
            yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()
