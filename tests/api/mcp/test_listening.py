"""Clients hear that the tools of their run are others now, and that a call takes long."""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from api.mcp.listening import Listeners
from api.problems import Refused
from schemas.codes import Code
from tests.api.conftest import Api, Tenant
from tests.api.mcp.conftest import HANDSHAKE, Wire
from tests.api.mcp.test_calls import decide
from tests.service import PATIENCE

pytestmark = pytest.mark.asyncio(loop_scope="session")

DRAFT, SUBMIT = "draft_refund_request", "submit_refund_for_approval"
CHANGED = "notifications/tools/list_changed"
LISTEN = {"notifications": {"toolsListChanged": True, "promptsListChanged": True}}


async def case(api: Api, tenant: Tenant) -> tuple[str, Callable[[], Awaitable[None]]]:
    """A run's token, and what moves the run into its next phase."""
    order = await api.service.outside.order()
    token = await tenant.run(order["customer_id"], tools=(DRAFT, SUBMIT))

    async def draft() -> None:
        asked = {"order_id": order["order_id"], "amount_cents": 2_000, "currency": "USD", "reason_code": "damaged"}
        done = await Wire(api, token).call(DRAFT, {**asked, "idempotency_key": secrets.token_hex(16)})
        assert done["structuredContent"]["status"] == "executed"

    return token, draft


@asynccontextmanager
async def events(url: str, method: str, token: str, **request: Any) -> AsyncGenerator[Callable[[], Awaitable[Any]]]:
    """The messages of a stream, one by one; None at its end."""
    headers = {"Authorization": f"Bearer {token}", **request.pop("headers")}
    async with (
        httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client,
        client.stream(method, url, headers=headers, **request) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        lines = answer.aiter_lines()

        async def following() -> Any:
            async with asyncio.timeout(PATIENCE):
                async for line in lines:
                    if line.startswith("data:"):
                        return json.loads(line.removeprefix("data:"))
            return None

        yield following


async def test_the_standing_stream_says_that_the_phase_changed(api: Api, tenant: Tenant, url: str) -> None:
    token, draft = await case(api, tenant)
    headers = {"Accept": "text/event-stream", "MCP-Protocol-Version": HANDSHAKE}
    async with events(url, "GET", token, headers=headers) as following:
        await draft()
        assert await following() == {"jsonrpc": "2.0", "method": CHANGED}
        await tenant.api.service.core.ledger.system.execute(
            "UPDATE tokens SET revoked_at = now() WHERE kind = 'run' AND tenant = $1", tenant.name
        )
        assert await following() is None, "it ends with its token"


async def test_a_client_of_2026_listens_for_the_list_of_tools(api: Api, tenant: Tenant, url: str) -> None:
    token, draft = await case(api, tenant)
    wire = Wire(api, token)
    body, headers = wire.message("subscriptions/listen", LISTEN)
    async with events(url, "POST", token, json=body, headers=headers) as following:
        acknowledged = await following()
        assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}, "nothing else ever comes"
        await draft()
        assert (await following())["method"] == CHANGED


async def test_there_are_so_many_listeners_of_a_run_and_no_more(api: Api, tenant: Tenant) -> None:
    listeners, services = Listeners(), api.app.state.context
    run = await services.ledger.principals.authenticate(await tenant.run("cus_1"))
    assert run is not None
    other = await services.ledger.principals.authenticate(await tenant.run("cus_1"))
    assert other is not None
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(listeners.place(run))
        with pytest.raises(Refused) as refused, listeners.place(run):
            pass
        assert refused.value.reply.code is Code.TEMPORARY_FAILURE
        stack.enter_context(listeners.place(other))
    with listeners.place(run):
        pass


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_who_asks_for_progress_hears_that_it_takes_long(api: Api, tenant: Tenant, url: str, mode: Any) -> None:
    parked = await tenant.parked()
    heard: list[float] = []
    first = asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)
        first.set()

    bearer = {"Authorization": f"Bearer {parked['run_token']}"}
    async with (
        httpx2.AsyncClient(headers=bearer, trust_env=False, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        await client.list_tools()
        check = {"request_id": parked["request_id"], "wait_seconds": 60}
        waiting = asyncio.create_task(client.call_tool("check_call", check, progress_callback=hear))
        async with asyncio.timeout(PATIENCE):
            await first.wait()
        await decide(tenant, parked["request_id"], "approve")
        settled = await waiting
    assert settled.structured_content is not None
    assert (settled.structured_content["status"], heard) == ("executed", sorted(heard))
