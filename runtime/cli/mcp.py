"""`counterseal mcp`: a local agent's standard input and output, and the service's `/mcp`.

It passes messages on and knows nothing of what they say; the run, its tools and its calls are the service's.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import anyio
import httpx2
import typer
from anyio.abc import TaskGroup
from mcp.client.streamable_http import streamable_http_client
from mcp.server.stdio import stdio_server
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    encode_header_value,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp.types import INTERNAL_ERROR, PROTOCOL_VERSION_META_KEY, JSONRPCRequest, JSONRPCResponse

from api.problems import MEDIA_TYPE as PROBLEM
from gateways.http import bearer
from runtime.cli.advertised import read_token
from runtime.cli.runs import ActorOption, AgentOption, Interface, open_run
from runtime.cli.service import ApiOption, ServiceTokenOption, StackOption, checked_url, find_service
from runtime.stack.connection import find_stack

app = typer.Typer(add_completion=False)

RUN_VARIABLE = "COUNTERSEAL_RUN_TOKEN"
_CONNECT_SECONDS, _LONGEST_SECONDS = 15, 120
_NO_ANSWER = (
    "The service does not answer. Whether this was done is not known: send it again with the same idempotency_key."
)
_NAMES = ("name", "uri", "taskId")


@app.command(epilog="Example: counterseal mcp --customer cus_DemoAda00001 --tool lookup_orders --tool issue_refund")
def mcp(
    run_token_file: Annotated[
        Path | None, typer.Option(help="File with a run's token", show_default=f"{RUN_VARIABLE}, else a new run")
    ] = None,
    customer: Annotated[str | None, typer.Option(help="Of a new run: whose data and money it is about")] = None,
    tool: Annotated[list[str] | None, typer.Option(help="Of a new run: a tool that it may use; repeatable")] = None,
    agent: AgentOption = "local-agent",
    actor: ActorOption = "local-user",
    data: StackOption = None,
    api: ApiOption = None,
    service_token: ServiceTokenOption = None,
) -> None:
    """Speak the Model Context Protocol on standard input and output, with the tools of a run.

    Without a run's token it opens a run, for a day, and needs what opens one: a running stack, or --api with
    --service-token.
    """
    run_token = read_token(run_token_file, RUN_VARIABLE)
    if run_token is not None:
        url = checked_url(api) if api is not None else find_stack(data).api
    elif customer is None or not tool:
        raise typer.BadParameter(f"give {RUN_VARIABLE} or --run-token-file, or --customer and --tool for a new run")
    else:
        url, token = find_service(data, api, service_token)
        opened = open_run(
            url, token, customer=customer, tools=tool, agent=agent, actor=actor, seconds=86_400, only=Interface.MCP
        )
        run_token = opened.run_token
    # Of what the SDK says nothing is ours to show, and what clients send may be in it.
    logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
    anyio.run(_relay, f"{url}/mcp", run_token)


async def _relay(url: str, token: str) -> None:
    timeout = httpx2.Timeout(_LONGEST_SECONDS, connect=_CONNECT_SECONDS)
    headers = {"Authorization": bearer(token)}
    relay = Relay()
    async with (
        httpx2.AsyncClient(transport=_InItsWords(), headers=headers, timeout=timeout) as http,
        streamable_http_client(url, http_client=http, terminate_on_close=False) as (from_service, to_service),
        stdio_server() as (from_agent, to_agent),
        to_agent,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(relay.up, from_agent, to_service, tasks)
        tasks.start_soon(relay.down, from_service, to_agent)


class _InItsWords(httpx2.AsyncBaseTransport):
    """Hands the agent what the service says of a refused request, and our words where it says nothing: the SDK would
    take a problem document for no answer, and a lost connection for the end."""

    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
            if response.headers.get("content-type", "").partition(";")[0] != PROBLEM:
                return response
            problem = json.loads(await response.aread())
            await response.aclose()
        except (httpx2.TransportError, ValueError):
            return _error(503, _NO_ANSWER, None)
        return _error(response.status_code, str(problem.get("detail")), problem)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _error(status: int, message: str, data: object) -> httpx2.Response:
    error = {"code": INTERNAL_ERROR, "message": message, "data": data}
    return httpx2.Response(status, json={"jsonrpc": "2.0", "id": None, "error": error})


class Relay:
    """Messages both ways, with the headers that those to the service need; ends when the agent's input does."""

    def __init__(self) -> None:
        self._opening: set[str | int] = set()
        self._version: str | None = None

    async def up(
        self, agent: ReadStream[SessionMessage | Exception], service: WriteStream[SessionMessage], tasks: TaskGroup
    ) -> None:
        async for item in agent:
            # What is no message has no id to be answered by, and the agent is told nothing but the protocol.
            if isinstance(item, SessionMessage):
                message = item.message
                if isinstance(message, JSONRPCRequest) and message.method == "initialize":
                    self._opening.add(message.id)
                headers = headers_of(message.model_dump(by_alias=True, mode="json"), self._version)
                metadata = ClientMessageMetadata(headers=headers) if headers else None
                await service.send(SessionMessage(message, metadata))
        tasks.cancel_scope.cancel()

    async def down(self, service: ReadStream[SessionMessage | Exception], agent: WriteStream[SessionMessage]) -> None:
        async for item in service:
            if isinstance(item, SessionMessage):
                self._learn(item)
                await agent.send(SessionMessage(item.message))

    def _learn(self, item: SessionMessage) -> None:
        """Which revision was agreed on, where there is a handshake."""
        message = item.message
        if isinstance(message, JSONRPCResponse) and message.id in self._opening:
            self._opening.discard(message.id)
            version = message.result.get("protocolVersion")
            self._version = version if isinstance(version, str) else None


def headers_of(message: Mapping[str, Any], agreed: str | None) -> dict[str, str]:
    """What HTTP says of a message beside it: its revision, and from 2026-07-28 on what it is about.

    https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
    """
    params = cast("Mapping[str, Any]", message.get("params") or {})
    meta = cast("Mapping[str, Any]", params.get("_meta") or {})
    version = meta.get(PROTOCOL_VERSION_META_KEY)
    if not isinstance(version, str):
        return {} if agreed is None else {MCP_PROTOCOL_VERSION_HEADER: agreed}
    headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: str(message.get("method"))}
    named = next((name for each in _NAMES if isinstance(name := params.get(each), str)), None)
    return headers if named is None else {**headers, MCP_NAME_HEADER: encode_header_value(named)}
