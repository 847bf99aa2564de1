"""`/mcp` as clients speak to it: raw messages where the wire is what a test is about, the SDK's client elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from tests.api.conftest import Api

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
        more = {
            "Host": self.host,
            "Accept": ACCEPT,
            "MCP-Protocol-Version": self.version,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return await self.api.post("/mcp", self.token, json=body, headers=more)

    async def send(self, method: str, params: Mapping[str, Any] | None = None, **headers: str) -> httpx.Response:
        given = dict(params or {})
        routing = {}
        if self.version == MODERN:
            given["_meta"] = {
                f"{_CLIENT}protocolVersion": MODERN,
                f"{_CLIENT}clientInfo": {"name": "tests", "version": "1"},
                f"{_CLIENT}clientCapabilities": {"extensions": {name: {} for name in self.extensions}},
                **given.get("_meta", {}),
            }
            routing = {"Mcp-Method": method}
            if named := given.get("name") or given.get("taskId"):
                routing["Mcp-Name"] = named
        return await self.post({"jsonrpc": "2.0", "id": 7, "method": method, "params": given}, **routing, **headers)

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
