"""One connection to an MCP server: opened by the SDK in a task of its own, until it is closed or lost.

https://modelcontextprotocol.io/specification
"""

import asyncio
import contextvars
import logging
import secrets
import subprocess
from collections.abc import Generator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import httpx2
import mcp.types
from mcp import Client, StdioServerParameters
from mcp.client.session import IncomingMessage
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError
from opentelemetry import context as tracing
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext
from pydantic import JsonValue, SecretStr, ValidationError

from gateways.egress import Egress
from gateways.http import MAX_BODY_BYTES, Problem
from gateways.mcp.flights import Bridge
from gateways.upstreams import Definition

MAX_TOOLS, MAX_PAGES = 1_000, 50

# The SDK's own words for no answer; a server that says so gives none either.
_UNANSWERED: Mapping[int, Problem] = {
    mcp.types.CONNECTION_CLOSED: "no_response",
    mcp.types.REQUEST_TIMEOUT: "timeout",
    mcp.types.PARSE_ERROR: "unreadable",
}
_OURS = mcp.types.Implementation(name="counterseal", version="1")


@dataclass(frozen=True, slots=True)
class HttpPlace:
    """A server that is spoken to over streamable HTTP."""

    url: str
    client: httpx.AsyncClient
    egress: Egress


@dataclass(frozen=True, slots=True)
class ProgramPlace:
    """A server that is a program of this machine, spoken to over its standard input and output.

    It gets the few variables of our environment that name no secret (PATH, HOME …), and those in `environment`; its
    credential is the variable `credential_variable`.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    credential_variable: str | None
    folder: Path | None


Place = HttpPlace | ProgramPlace


class Lost(Exception):
    """There is no connection, or there is none any more. The only argument is our word for why."""

    @property
    def problem(self) -> str:
        return self.args[0]


class Connection:
    """Open from `open` until `close`. What the server says of itself, and what it asks of a client (sampling,
    elicitation, roots), goes nowhere: the SDK refuses what has no callback."""

    def __init__(self, system: str, place: Place, secret: SecretStr | None, deadline_seconds: float) -> None:
        """`deadline_seconds`: how long any answer is waited for, also those that belong to no call."""
        # They write what servers say, with tracebacks.
        logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
        self._system, self._place, self._secret = system, place, secret
        self._deadline_seconds = deadline_seconds
        self._client: Client | None = None
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._problem: str | None = None
        self._tools: dict[str, Definition | None] = {}
        self._listing = asyncio.Lock()
        self._listed_at: float | None = None

    def open(self) -> None:
        # A context of its own: it outlives the call that needed it first.
        self._task = asyncio.create_task(self._run(), context=contextvars.Context())

    @property
    def is_lost(self) -> bool:
        return self._task is None or self._task.done() or self._closing.is_set()

    @property
    def over_http(self) -> bool:
        return isinstance(self._place, HttpPlace)

    async def ready(self) -> None:
        """Raises Lost."""
        await self._opened()

    async def close(self) -> None:
        self._closing.set()
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task

    def lose(self) -> None:
        """Have it closed: the next call opens another one."""
        self._closing.set()

    async def tools(self, at_most_old: float) -> Mapping[str, Definition | None]:
        """What is advertised, by name, as it was asked for at most so many seconds ago; None for a name that is there
        more than once. Raises Lost."""
        async with self._listing:
            now = asyncio.get_running_loop().time()
            if self._listed_at is None or now - self._listed_at > at_most_old:
                # Said to have changed meanwhile, it counts as old again.
                self._listed_at = now
                try:
                    self._tools = await self._list()
                except BaseException:
                    self._listed_at = None
                    raise
            return self._tools

    async def call(
        self, tool: str, arguments: Mapping[str, JsonValue], meta: Mapping[str, JsonValue] | None
    ) -> mcp.types.CallToolResult | int:
        """What a tool answers, or the code of a protocol error. Raises Lost for no answer and for an unreadable one."""
        parameters = mcp.types.CallToolRequestParams(
            name=tool,
            arguments=dict(arguments),
            _meta=mcp.types.RequestParamsMeta(**meta) if meta else None,  # pyright: ignore[reportArgumentType]  # further keys are allowed
        )
        client = await self._opened()
        try:
            # Not `call_tool`: it would send again where a server says so, and answer what a server asks back.
            with unrecorded():
                result = await client.session.send_request(
                    mcp.types.CallToolRequest(params=parameters), mcp.types.CallToolResult
                )
        except mcp.MCPError as error:
            if error.error.code in _UNANSWERED:
                raise Lost(_UNANSWERED[error.error.code]) from None
            return error.error.code
        except (ValidationError, RuntimeError):
            raise Lost("unreadable") from None
        if result.result_type != "complete":
            raise Lost("unreadable")
        return result

    async def _list(self) -> dict[str, Definition | None]:
        client = await self._opened()
        found: dict[str, Definition | None] = {}
        count, cursor = 0, None
        try:
            for _ in range(MAX_PAGES):
                with unrecorded():
                    page = await client.session.list_tools(params=mcp.types.PaginatedRequestParams(cursor=cursor))
                for tool in page.tools:
                    found[tool.name] = None if tool.name in found else _definition(tool)
                count, cursor = count + len(page.tools), page.next_cursor
                if count > MAX_TOOLS:
                    raise Lost("too_large")
                if cursor is None:
                    return found
        except (mcp.MCPError, ValidationError, RuntimeError):
            raise Lost(self._problem or "unreadable") from None
        raise Lost("too_large")

    async def _opened(self) -> Client:
        await asyncio.shield(self._ready)
        if self._client is None or self.is_lost:
            raise Lost(self._problem or "connect_failed")
        return self._client

    async def _run(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                tracing.attach(_unsampled())
                transport = await self._transport(stack)
                client = Client(
                    transport,
                    client_info=_OURS,
                    message_handler=self._heard,
                    cache=None,
                    read_timeout_seconds=self._deadline_seconds,
                )
                try:
                    self._client = await stack.enter_async_context(client)
                finally:
                    self._set_ready()
                listening = asyncio.create_task(self._listen(self._client))
                stack.callback(listening.cancel)
                await self._closing.wait()
        except Exception:  # noqa: BLE001, S110 - groups of anything, with a stranger's words; `_told` knows better
            pass
        finally:
            self._closing.set()
            self._set_ready()

    def _set_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    async def _transport(self, stack: AsyncExitStack) -> AbstractAsyncContextManager[Any]:
        match self._place:
            case HttpPlace(url, client, egress):
                bridge = Bridge(client, egress, self._system, self._secret, self._deadline_seconds / 2, self._told)
                http = await stack.enter_async_context(
                    httpx2.AsyncClient(transport=bridge, timeout=httpx2.Timeout(None), trust_env=False)
                )
                return streamable_http_client(url, http_client=http, max_sse_event_size=MAX_BODY_BYTES)
            case ProgramPlace(command, environment, variable, folder):
                given = dict(environment)
                if variable is not None and self._secret is not None:
                    given[variable] = self._secret.get_secret_value()
                program = StdioServerParameters(command=command[0], args=list(command[1:]), env=given, cwd=folder)
                # What it writes to its standard error may be anything.
                return stdio_client(program, errlog=subprocess.DEVNULL)  # pyright: ignore[reportArgumentType]  # as good as a file

    def _told(self, problem: str | None) -> None:
        self._problem = problem

    async def _heard(self, message: IncomingMessage) -> None:
        if isinstance(message, mcp.types.ToolListChangedNotification):
            self._listed_at = None

    async def _listen(self, client: Client) -> None:
        """Since 2026-07-28 a client has to ask to be told; before, `_heard` is told unasked. A server that tells nobody
        is asked for its list again when that is old."""
        with suppress(ListenNotSupportedError, mcp.MCPError, RuntimeError, TimeoutError):
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._listed_at = None


@contextmanager
def unrecorded() -> Generator[None]:
    """The SDK's spans hold the words of servers, and it tells a server the trace that it runs in: here it has one that
    nobody records and that is nobody's."""
    token = tracing.attach(_unsampled())
    try:
        yield
    finally:
        tracing.detach(token)


def _unsampled() -> tracing.Context:
    nobodys = SpanContext(trace_id=secrets.randbits(128), span_id=secrets.randbits(64), is_remote=False)
    return trace.set_span_in_context(NonRecordingSpan(nobodys), tracing.Context())


def _definition(tool: mcp.types.Tool) -> Definition:
    said = {} if tool.annotations is None else tool.annotations.model_dump(by_alias=True, exclude_none=True)
    return Definition(tool.name, tool.title, tool.description, tool.input_schema, tool.output_schema, said)
