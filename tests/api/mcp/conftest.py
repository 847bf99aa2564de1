"""`/mcp` as clients speak to it: raw messages where the wire is what a test is about, the SDK's client elsewhere."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import pytest_asyncio

from runtime.stack.postgres import Postgres
from tests.api.api_process import ApiProcess, api_process, started
from tests.api.conftest import Api
from tests.service import SandboxUrls
from tests.serving import served

MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
ACCEPT = "application/json, text/event-stream"
TASKS = "io.modelcontextprotocol/tasks"
_CLIENT = "io.modelcontextprotocol/"


@dataclass(frozen=True)
class Wire:
    """Sends single messages of a revision with a run's token."""

    api: Api
    token: str | None
    version: str = MODERN
    extensions: tuple[str, ...] = ()
    host: str = "127.0.0.1:8080"

    async def post(self, body: Any, **headers: str) -> httpx.Response:
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.api.post("/mcp", self.token, json=body, headers={**self._headers, **more})

    async def send(self, method: str, params: Mapping[str, Any] | None = None, **headers: str) -> httpx.Response:
        body, own = self.message(method, params)
        return await self.post(body, **{**own, **headers})

    def message(self, method: str, params: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, str]]:
        """(body, headers) of a request."""
        given, headers = dict(params or {}), dict(self._headers)
        if self.version == MODERN:
            given["_meta"] = {
                f"{_CLIENT}protocolVersion": MODERN,
                f"{_CLIENT}clientInfo": {"name": "tests", "version": "1"},
                f"{_CLIENT}clientCapabilities": {"extensions": {name: {} for name in self.extensions}},
                **given.get("_meta", {}),
            }
            headers["Mcp-Method"] = method
            if named := given.get("name") or given.get("taskId"):
                headers["Mcp-Name"] = named
        return {"jsonrpc": "2.0", "id": 7, "method": method, "params": given}, headers

    @property
    def _headers(self) -> dict[str, str]:
        return {"Host": self.host, "Accept": ACCEPT, "MCP-Protocol-Version": self.version}

    async def result(self, method: str, params: Mapping[str, Any] | None = None, **headers: str) -> dict[str, Any]:
        answer = await self.send(method, params, **headers)
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]

    async def call(self, tool: str, arguments: Mapping[str, Any], **meta: Any) -> dict[str, Any]:
        params: dict[str, Any] = {"name": tool, "arguments": dict(arguments)}
        if meta:
            params["_meta"] = {f"counterseal/{name}": value for name, value in meta.items()}
        return await self.result("tools/call", params)

    async def tools(self) -> dict[str, dict[str, Any]]:
        return {tool["name"]: tool for tool in (await self.result("tools/list"))["tools"]}


class Pair(NamedTuple):
    """Two API processes of one service, with tools that the conformance suite looks for."""

    one: ApiProcess
    other: ApiProcess


@pytest.fixture(scope="session")
def pair(
    _runner: asyncio.Runner,
    postgres_server: Postgres,
    migrated_template: str,
    temporal_server: str,
    sandbox_urls: SandboxUrls,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Pair]:
    tools = Path(__file__).parent / "tools"
    names = ["issue_refund", "lookup_orders", *sorted(folder.name for folder in tools.iterdir())]
    with (
        api_process(
            _runner,
            postgres_server,
            migrated_template,
            temporal_server,
            sandbox_urls,
            tmp_path_factory.mktemp("one"),
            tools=names,
            COUNTERSEAL_TOOLS_PATH=str(tools),
        ) as one,
        started(one.environment, one.tokens, tmp_path_factory.mktemp("other")) as other,
    ):
        yield Pair(one, other)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def url(api: Api) -> AsyncIterator[str]:
    """Of the application of `api` on a socket, for what streams."""
    async with served(api.app) as base:
        yield f"{base}/mcp"
