"""The shop of the how-to page, as an MCP server on a real socket whose answers can be lost."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateways.upstreams import Definition
from tests.docs.written import ROOT
from tests.serving import served

PAGE = (ROOT / "docs" / "how-to" / "put-a-gate-before-an-mcp-server.md").read_text(encoding="utf-8")
FILES: dict[str, str] = dict(re.findall(r"^`our_tools/([^`]+)`:\n\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
"""What stands in each file of the page, by its path below `our_tools`."""
SERVER = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
NO_PIN = "0" * 64
KEY = "shop-key-of-the-tests"


@dataclass
class Shop:
    """A running shop. `seen`: (method, headers) of what reached it. `lose`: how many answers of a tool are lost."""

    server: MCPServer
    names: dict[str, Any]
    url: str = ""
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list[tuple[str, dict[str, str]]])
    lose: dict[str, int] = field(default_factory=dict[str, int])
    before: Callable[[Scope, Send], Awaitable[bool]] | None = None

    @property
    def refunds(self) -> list[dict[str, Any]]:
        """What was really paid back."""
        return self.names["refunds"]

    def order(self, order_id: str, customer_id: str, left: int = 90_000, note: str = "at the door") -> None:
        self.names["orders"][order_id] = {
            "order_id": order_id,
            "customer_id": customer_id,
            "paid_cents": left,
            "left_cents": left,
            "note": note,
        }

    async def definitions(self) -> dict[str, Definition]:
        """What it advertises, as the protocol says it."""
        found: dict[str, Definition] = {}
        for tool in await self.server.list_tools():
            said = tool.model_dump(by_alias=True, exclude_none=True, mode="json")
            found[tool.name] = Definition(
                said["name"],
                said.get("title"),
                said.get("description"),
                said["inputSchema"],
                said.get("outputSchema"),
                said.get("annotations", {}),
            )
        return found

    def describe(self, tool: str, description: str) -> None:
        """From now on it advertises this of a tool."""
        found = self.server._tool_manager.get_tool(tool)
        assert found is not None
        found.description = description


@asynccontextmanager
async def shop_server(**options: Any) -> AsyncGenerator[Shop]:
    """`options` are those of the application that speaks HTTP."""
    names: dict[str, Any] = {"__name__": "shop"}
    exec(compile(SERVER, "shop.py", "exec"), names)
    shop = Shop(names["server"], names)
    async with served(_Losing(shop, shop.server.streamable_http_app(**options)), lifespan="on") as url:
        shop.url = f"{url}/mcp"
        yield shop


class _Losing:
    """Notes what comes in, and loses answers after they were made."""

    def __init__(self, shop: Shop, app: ASGIApp) -> None:
        self._shop, self._app = shop, app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self._shop.seen.append((scope["method"], headers))
        if self._shop.before is not None and await self._shop.before(scope, send):
            return
        tool = headers.get("mcp-name", "")
        if self._shop.lose.get(tool, 0) > 0:
            self._shop.lose[tool] -= 1

            async def nowhere(message: Message) -> None:
                pass

            await self._app(scope, receive, nowhere)
            head = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": head})
            await send({"type": "http.response.body", "body": b": ", "more_body": True})
            raise ConnectionAbortedError
        await self._app(scope, receive, send)


async def write_tools(root: Path, shop: Shop) -> Path:
    """The folders of the page below `root`, pinned to what the shop advertises."""
    pins = {name: str(each.pin) for name, each in (await shop.definitions()).items()}
    for path, content in FILES.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(pinned(content, pins), encoding="utf-8")
    return root


def pinned(document: str, pins: dict[str, str]) -> str:
    """The document with the pin of each tool that it calls."""
    return re.sub(rf'(tool: (\w+)\n +pin: )"{NO_PIN}"', lambda found: f'{found[1]}"{pins[found[2]]}"', document)
