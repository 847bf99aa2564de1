"""Calls over MCP: the same as over HTTP, whatever the revision of the protocol."""

import asyncio
import json
import secrets
from typing import Any, NoReturn

import jsonschema
import pytest

from api import asking
from schemas.codes import Code
from schemas.events import CallProposed
from tests.api.conftest import Api, Tenant
from tests.api.mcp.conftest import HANDSHAKE, MODERN, Wire
from tests.service import refund_arguments

pytestmark = pytest.mark.asyncio(loop_scope="session")
REVISIONS = pytest.mark.parametrize("version", [MODERN, HANDSHAKE, "2025-06-18"])


async def decide(tenant: Tenant, request_id: str, verdict: str) -> None:
    listed = await tenant.api.get("/v1/approvals", tenant.approver_token)
    (approval,) = (each for each in listed.json()["approvals"] if each["request_id"] == request_id)
    decided = await tenant.api.post(
        f"/v1/approvals/{approval['approval_id']}/decision",
        tenant.approver_token,
        json={"decision": verdict, "action_digest": approval["action_digest"], "reason": "as agreed"},
    )
    assert decided.status_code == 200, decided.text


def valid(tools: dict[str, dict[str, Any]], tool: str, result: dict[str, Any]) -> dict[str, Any]:
    """The reply object in a result, which is what the tool's output schema says, in both of its forms."""
    reply = result["structuredContent"]
    jsonschema.Draft202012Validator(tools[tool]["outputSchema"]).validate(reply)
    (content,) = result["content"]
    assert content["type"] == "text"
    assert json.loads(content["text"]) == reply
    return reply


@REVISIONS
async def test_a_read_and_a_write_are_executed(api: Api, tenant: Tenant, version: str) -> None:
    order = await api.service.outside.order()
    token = await tenant.run(order["customer_id"], tools=("lookup_orders", "issue_refund"))
    wire = Wire(api, token, version)
    tools = await wire.tools()
    found = await wire.call("lookup_orders", {})
    assert found["isError"] is False
    assert [each["order_id"] for each in valid(tools, "lookup_orders", found)["result"]["orders"]] == [
        order["order_id"]
    ]
    done = await wire.call("issue_refund", refund_arguments(order, 4_999))
    reply = valid(tools, "issue_refund", done)
    assert (done["isError"], reply["status"], reply["result"]["amount_cents"]) == (False, "executed", 4_999)
    over_http = await api.get(f"/v1/tool-calls/{reply['request_id']}", token)
    assert over_http.json() == reply


@REVISIONS
async def test_a_parked_call_is_answered_at_once_and_followed(api: Api, tenant: Tenant, version: str) -> None:
    order = await api.service.outside.order(50_000)
    wire = Wire(api, await tenant.run(order["customer_id"]), version)
    tools = await wire.tools()
    parked = await wire.call("issue_refund", refund_arguments(order, 25_000))
    reply = valid(tools, "issue_refund", parked)
    assert (parked["isError"], reply["status"], reply["action"]) == (False, "pending_approval", "wait")
    check = {"request_id": reply["request_id"]}
    assert valid(tools, "check_call", await wire.call("check_call", check)) == reply
    waiting = asyncio.create_task(wire.call("check_call", {**check, "wait_seconds": 60}))
    await decide(tenant, reply["request_id"], "approve")
    settled = valid(tools, "check_call", await waiting)
    assert (settled["status"], settled["result"]["amount_cents"]) == ("executed", 25_000)


async def test_a_denied_call_is_an_error_for_the_model(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order(50_000)
    wire, arguments = Wire(api, await tenant.run(order["customer_id"])), refund_arguments(order, 25_000)
    parked = await wire.call("issue_refund", arguments)
    await decide(tenant, parked["structuredContent"]["request_id"], "deny")
    again = await wire.call("issue_refund", arguments)
    assert (again["isError"], again["structuredContent"]["code"]) == (True, "USER_DENIED")


async def test_a_parked_call_is_withdrawn_once(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order(50_000)
    wire = Wire(api, await tenant.run(order["customer_id"]))
    tools = await wire.tools()
    parked = await wire.call("issue_refund", refund_arguments(order, 25_000))
    request_id = parked["structuredContent"]["request_id"]
    withdrawn = valid(tools, "withdraw_call", await wire.call("withdraw_call", {"request_id": request_id}))
    assert withdrawn["status"] == "cancelled"
    done = await wire.call("issue_refund", refund_arguments(order, 4_999))
    late = await wire.call("withdraw_call", {"request_id": done["structuredContent"]["request_id"]})
    assert valid(tools, "withdraw_call", late)["status"] == "executed"


async def test_a_call_of_nobody_or_somebody_else_is_not_there(api: Api, tenant: Tenant) -> None:
    other = await api.tenant()
    parked = await other.parked()
    wire = Wire(api, await tenant.run("cus_1"))
    for request_id in (parked["request_id"], f"act_{'0' * 32}", "nonsense"):
        for tool in ("check_call", "withdraw_call"):
            found = await wire.call(tool, {"request_id": request_id})
            assert (found["isError"], found["structuredContent"]["code"]) == (True, "INVALID_INPUT")
            assert "there is no such call" in found["structuredContent"]["message"]


async def test_refusals_are_replies_that_the_model_sees(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    wire = Wire(api, await tenant.run(order["customer_id"]))
    tools = await wire.tools()
    wrong = await wire.call("issue_refund", {**refund_arguments(order, 4_999), "amount_cents": "much"})
    reply = valid(tools, "issue_refund", wrong)
    assert (wrong["isError"], reply["code"], reply["invalid_fields"]) == (True, "INVALID_INPUT", ["amount_cents"])
    too_much = await wire.call("issue_refund", refund_arguments(order, 49_000))
    assert valid(tools, "issue_refund", too_much)["code"] == "REFUND_EXCEEDS_PAID"
    for tool in ("lookup_orders", "reinstate_order", "no_such_tool"):
        refused = await wire.call(tool, {})
        reply = refused["structuredContent"]
        assert (refused["isError"], reply["code"], reply["allowed"]) == (
            True,
            "TOOL_NOT_AVAILABLE",
            {"tools": "issue_refund"},
        )


async def test_the_same_key_is_the_same_call(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    token, arguments = await tenant.run(order["customer_id"]), refund_arguments(order, 1_000)
    first = await Wire(api, token).call("issue_refund", arguments)
    assert first["structuredContent"]["status"] == "executed"
    key = arguments.pop("idempotency_key")
    for wire in (Wire(api, token), Wire(api, token, HANDSHAKE)):
        again = await wire.call("issue_refund", arguments, idempotency_key=key)
        assert again["structuredContent"] == first["structuredContent"]
    other = await Wire(api, token).call("issue_refund", {**arguments, "amount_cents": 2_000}, idempotency_key=key)
    assert (other["isError"], other["structuredContent"]["code"]) == (True, "IDEMPOTENCY_CONFLICT")
    over_http = await api.call(token, {**arguments, "idempotency_key": key})
    assert over_http.json() == first["structuredContent"]


async def test_two_keys_that_differ_are_none(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    wire = Wire(api, await tenant.run(order["customer_id"]))
    refused = await wire.call("issue_refund", refund_arguments(order, 1_000), idempotency_key=secrets.token_hex(16))
    assert refused["structuredContent"]["invalid_fields"] == ["idempotency_key"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("idempotency_key", "short"), ("dry_run", "yes"), ("wait_seconds", 61), ("wait_seconds", True)],
)
async def test_what_is_said_beside_the_arguments_is_checked(
    api: Api, somebody: Tenant, run_token: str, field: str, value: object
) -> None:
    refused = await Wire(api, run_token).call("issue_refund", {}, **{field: value})
    assert (refused["isError"], refused["structuredContent"]["invalid_fields"]) == (True, [field])


async def test_a_dry_run_touches_nothing(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order(50_000)
    wire = Wire(api, await tenant.run(order["customer_id"]))
    tools, before = await wire.tools(), await api.rows()
    tried = await wire.call("issue_refund", refund_arguments(order, 25_000), dry_run=True)
    reply = valid(tools, "issue_refund", tried)
    assert (tried["isError"], reply["dry_run"], reply["decision"]) == (False, True, "hold")
    refused = await wire.call("issue_refund", refund_arguments(order, 50_000) | {"currency": "EUR"}, dry_run=True)
    assert (refused["isError"], refused["structuredContent"]["decision"]) == (False, "refuse")
    assert await api.rows() == before


@pytest.mark.parametrize("version", [MODERN, HANDSHAKE])
async def test_a_failure_of_ours_says_nothing_of_itself(
    api: Api, somebody: Tenant, run_token: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> NoReturn:
        raise RuntimeError("secret sauce")

    wire = Wire(api, run_token, version)
    monkeypatch.setattr(asking, "check_phase", fail)
    monkeypatch.setattr("api.mcp.calls.offered", fail)
    called = await wire.send("tools/call", {"name": "issue_refund", "arguments": _arguments()})
    reply = called.json()["result"]["structuredContent"]
    assert (reply["code"], called.json()["result"]["isError"]) == ("INTERNAL_FAILURE", True)
    listed = await wire.send("tools/list")
    assert listed.json()["error"]["data"]["code"] == "INTERNAL_FAILURE"
    assert "sauce" not in called.text + listed.text
    assert "RuntimeError" not in called.text + listed.text


def _arguments() -> dict[str, Any]:
    return refund_arguments({"order_id": "ord_8f2b91a04c7d", "currency": "USD"}, 4_999)


async def test_a_call_over_mcp_is_counted_among_the_refused(
    api: Api, somebody: Tenant, run_token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[Code] = []
    monkeypatch.setattr(
        type(api.app.state.context.edge_diagnostics), "note", lambda _, request, reply, *__: noted.append(reply.code)
    )
    await Wire(api, run_token).call("issue_refund", {})
    await Wire(api, run_token).call("no_such_tool", {})
    assert noted == [Code.INVALID_INPUT, Code.TOOL_NOT_AVAILABLE]


@pytest.mark.parametrize("version", [MODERN, HANDSHAKE])
async def test_a_call_belongs_to_the_trace_that_it_names(api: Api, tenant: Tenant, version: str) -> None:
    order = await api.service.outside.order()
    wire = Wire(api, await tenant.run(order["customer_id"]), version)
    in_meta, in_header = secrets.token_hex(16), secrets.token_hex(16)
    params = {"name": "issue_refund", "arguments": refund_arguments(order, 1_000)}
    named = {**params, "_meta": {"traceparent": f"00-{in_meta}-{secrets.token_hex(8)}-01"}}
    header = {"traceparent": f"00-{in_header}-{secrets.token_hex(8)}-01"}
    for given, expected in ((named, in_meta), ({**params, "arguments": refund_arguments(order, 1_000)}, in_header)):
        result = await wire.result("tools/call", given, **header)
        request_id = result["structuredContent"]["request_id"]
        events = await api.service.core.ledger.of(tenant.name).calls.events(request_id)
        assert [event.call.trace_id for _, event in events if isinstance(event, CallProposed)] == [expected]
