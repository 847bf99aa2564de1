"""Which tools are listed, as what, and how clients hear that they are others now."""

import secrets
from typing import Any

import jsonschema
import pytest

from tests.api.conftest import Api, Tenant
from tests.api.mcp.conftest import HANDSHAKE, MODERN, Wire

pytestmark = pytest.mark.asyncio(loop_scope="session")

DRAFT, SUBMIT = "draft_refund_request", "submit_refund_for_approval"


async def draft(api: Api, token: str, order: dict[str, Any]) -> dict[str, Any]:
    arguments = {
        "order_id": order["order_id"],
        "amount_cents": 2_000,
        "currency": "USD",
        "reason_code": "damaged",
        "idempotency_key": secrets.token_hex(16),
    }
    return (await Wire(api, token).call(DRAFT, arguments))["structuredContent"]


@pytest.mark.parametrize("version", [MODERN, HANDSHAKE])
async def test_tools_are_listed_by_token_and_phase(api: Api, tenant: Tenant, version: str) -> None:
    order = await api.service.outside.order()
    token = await tenant.run(order["customer_id"], tools=(DRAFT, SUBMIT, "lookup_orders"))
    wire = Wire(api, token, version)
    assert list(await wire.tools()) == [DRAFT, "lookup_orders", "check_call", "withdraw_call"]
    assert (await draft(api, token, order))["status"] == "executed"
    assert list(await wire.tools()) == [DRAFT, "lookup_orders", SUBMIT, "check_call", "withdraw_call"]
    reads = Wire(api, await tenant.run(order["customer_id"], tools=("lookup_orders",)), version)
    assert list(await reads.tools()) == ["lookup_orders"]
    unasked = await reads.call("check_call", {"request_id": f"act_{'0' * 32}"})
    assert unasked["structuredContent"]["code"] == "TOOL_NOT_AVAILABLE"


async def test_every_tool_can_be_described(api: Api, somebody: Tenant) -> None:
    published = api.app.state.context.catalog.published()
    names = tuple(entry.manifest.name for entry in published if entry.manifest.phase is None)
    token = await somebody.run("cus_1", tools=names)
    described = {tool["name"]: tool for tool in (await api.get("/v1/tools", token)).json()["tools"]}
    tools = await Wire(api, token).tools()
    assert set(tools) == {*names, "check_call", "withdraw_call"}
    for name, tool in tools.items():
        for schema in (tool["inputSchema"], tool["outputSchema"]):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
        if name in described:
            assert tool["inputSchema"] == described[name]["input_schema"]
            assert tool["description"] == described[name]["description"]
            assert tool["_meta"] == {"counterseal/version": described[name]["version"]}
            assert tool["annotations"] == described[name]["annotations"]
    refund = tools["issue_refund"]
    assert (refund["annotations"]["readOnlyHint"], refund["annotations"]["destructiveHint"]) == (False, True)
    assert "idempotency_key" in refund["inputSchema"]["required"]
    assert tools["lookup_orders"]["annotations"]["readOnlyHint"] is True


async def test_a_cursor_of_somebody_s_own_is_refused(api: Api, run_token: str) -> None:
    answer = await Wire(api, run_token).send("tools/list", {"cursor": "abc"})
    error = answer.json()["error"]
    assert (error["code"], error["data"]["code"]) == (-32602, "INVALID_INPUT")


async def test_what_is_served_is_said(api: Api, run_token: str) -> None:
    found = await Wire(api, run_token).result("server/discover")
    assert found["capabilities"]["tools"] == {"listChanged": True}
    assert found["capabilities"]["extensions"] == {"io.modelcontextprotocol/tasks": {}}
    hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    begun = await Wire(api, run_token, HANDSHAKE).result("initialize", hello)
    assert (begun["protocolVersion"], begun["capabilities"]["tools"]) == (HANDSHAKE, {"listChanged": True})
    assert begun["capabilities"]["tasks"] == {"cancel": {}, "requests": {"tools": {"call": {}}}}
    assert begun["serverInfo"]["name"] == "counterseal"
