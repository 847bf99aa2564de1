"""Calls that wait, as tasks of both revisions."""

import pytest

from tests.api.conftest import Api, Tenant
from tests.api.mcp.conftest import HANDSHAKE, MODERN, TASKS, Wire
from tests.api.mcp.test_calls import decide
from tests.service import refund_arguments

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_call_that_waits_is_a_task_for_a_client_that_takes_them(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order(50_000)
    token = await tenant.run(order["customer_id"])
    wire = Wire(api, token, extensions=(TASKS,))
    task = await wire.call("issue_refund", refund_arguments(order, 25_000))
    assert (task["resultType"], task["status"], task["ttlMs"]) == ("task", "working", None)
    assert "A person must approve" in task["statusMessage"]
    found = await wire.result("tasks/get", {"taskId": task["taskId"]})
    assert (found["resultType"], found["status"], "result" in found) == ("complete", "working", False)
    await decide(tenant, task["taskId"], "approve")
    await wire.call("check_call", {"request_id": task["taskId"], "wait_seconds": 60})
    found = await wire.result("tasks/get", {"taskId": task["taskId"]})
    assert found["status"] == "completed"
    assert (found["result"]["isError"], found["result"]["structuredContent"]["status"]) == (False, "executed")
    over_http = await api.get(f"/v1/tool-calls/{task['taskId']}", token)
    assert over_http.json() == found["result"]["structuredContent"]


async def test_a_call_that_is_over_is_none(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order(50_000)
    wire = Wire(api, await tenant.run(order["customer_id"]), extensions=(TASKS,))
    for arguments, more in (
        (refund_arguments(order, 4_999), {}),
        (refund_arguments(order, 25_000), {"dry_run": True}),
        ({}, {}),
    ):
        result = await wire.call("issue_refund", arguments, **more)
        assert result["resultType"] == "complete"


async def test_a_denied_call_is_a_completed_task_with_that_result(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order(50_000)
    wire = Wire(api, await tenant.run(order["customer_id"]), extensions=(TASKS,))
    task = await wire.call("issue_refund", refund_arguments(order, 25_000))
    await decide(tenant, task["taskId"], "deny")
    found = await wire.result("tasks/get", {"taskId": task["taskId"]})
    assert (found["status"], found["result"]["isError"]) == ("completed", True)


@pytest.mark.parametrize("version", [MODERN, HANDSHAKE])
async def test_a_task_is_cancelled(api: Api, tenant: Tenant, version: str) -> None:
    parked = await tenant.parked()
    wire = Wire(api, parked["run_token"], version, extensions=(TASKS,))
    acknowledged = await wire.result("tasks/cancel", {"taskId": parked["request_id"]})
    assert acknowledged.get("status") == ("cancelled" if version == HANDSHAKE else None)
    found = await wire.result("tasks/get", {"taskId": parked["request_id"]})
    assert (found["status"], "result" in found) == ("cancelled", False)


async def test_tasks_need_a_client_that_says_so(api: Api, tenant: Tenant) -> None:
    parked = await tenant.parked()
    wire = Wire(api, parked["run_token"])
    for method in ("tasks/get", "tasks/cancel", "tasks/update"):
        error = (await wire.send(method, {"taskId": parked["request_id"]})).json()["error"]
        assert (error["code"], list(error["data"]["requiredCapabilities"]["extensions"])) == (-32021, [TASKS])


@pytest.mark.parametrize("version", [MODERN, HANDSHAKE])
async def test_a_task_of_somebody_else_is_not_there(api: Api, tenant: Tenant, version: str) -> None:
    parked = await (await api.tenant()).parked()
    wire = Wire(api, await tenant.run("cus_1"), version, extensions=(TASKS,))
    for task_id in (parked["request_id"], f"act_{'0' * 32}", "nonsense"):
        for method in ("tasks/get", "tasks/cancel", "tasks/result", "tasks/update"):
            error = (await wire.send(method, {"taskId": task_id})).json()["error"]
            assert (error["code"], error["data"]["code"]) == (-32602, "INVALID_INPUT"), method


async def test_a_client_of_2025_asks_for_a_task(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order(50_000)
    wire = Wire(api, await tenant.run(order["customer_id"]), HANDSHAKE)
    assert (await wire.tools())["issue_refund"]["execution"] == {"taskSupport": "optional"}
    asked = {"name": "issue_refund", "arguments": refund_arguments(order, 25_000), "task": {"ttl": 60_000}}
    task = (await wire.result("tools/call", asked))["task"]
    assert (task["status"], task["ttl"], task["pollInterval"]) == ("working", None, 5000)
    again = (await wire.result("tools/call", asked))["task"]
    assert again["taskId"] == task["taskId"]
    await decide(tenant, task["taskId"], "approve")
    result = await wire.result("tasks/result", {"taskId": task["taskId"]})
    assert result["structuredContent"]["status"] == "executed"
    assert result["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task["taskId"]}
    assert (await wire.result("tasks/get", {"taskId": task["taskId"]}))["status"] == "completed"


async def test_what_never_became_a_call_is_no_task(api: Api, run_token: str) -> None:
    asked = {"name": "issue_refund", "arguments": {}, "task": {}}
    error = (await Wire(api, run_token, HANDSHAKE).send("tools/call", asked)).json()["error"]
    assert (error["code"], error["data"]["code"]) == (-32602, "INVALID_INPUT")
