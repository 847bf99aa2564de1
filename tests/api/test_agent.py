"""The agent's API: runs, tools, calls, progress and withdrawal."""

import asyncio
import secrets
from typing import Any, cast

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from schemas.codes import REGISTRY, Code
from schemas.ids import key_hash, workflow_id
from schemas.replies import Reply
from tests.api.conftest import Api, Tenant
from tests.service import refund_arguments

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_run_lists_its_tools_and_no_others(tenant: Tenant) -> None:
    token = await tenant.run("cus_1", tools=("issue_refund", "lookup_orders", "issue_refund"))
    tools = (await tenant.api.get("/v1/tools", token)).json()["tools"]
    assert [tool["name"] for tool in tools] == ["issue_refund", "lookup_orders"]
    for tool in tools:
        assert set(tool) == {"name", "version", "description", "input_schema", "output_schema", "annotations"}
        assert "customer_id" not in str(tool["input_schema"])
        assert "actor_id" not in str(tool["input_schema"])


@pytest.mark.parametrize("tools", [("reinstate_order",), ("issue_refund", "no_such_tool"), ("counterseal",)])
async def test_a_run_for_an_internal_or_unknown_tool_is_not_opened(tenant: Tenant, tools: tuple[str, ...]) -> None:
    body = {"agent_id": "bot", "actor_id": "user", "customer_id": "cus_1", "tools": list(tools)}
    answer = await tenant.api.post("/v1/runs", tenant.service_token, json=body)
    assert (answer.status_code, answer.json()["code"]) == (403, "TOOL_NOT_AVAILABLE")


@pytest.mark.parametrize("tool", ["lookup_orders", "reinstate_order", "no_such_tool", "Issue_refund", ""])
async def test_a_tool_outside_the_run_is_not_available(tenant: Tenant, tool: str) -> None:
    answer = await tenant.api.call(await tenant.run("cus_1"), {}, tool)
    assert (answer.status_code, answer.json()["code"]) == (403, "TOOL_NOT_AVAILABLE")


async def test_a_free_call_is_executed_and_answered(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    token = await tenant.run(order["customer_id"])
    answer = await api.call(token, refund_arguments(order, 4_999))
    assert answer.status_code == 200
    reply = Reply.model_validate_json(answer.content)
    assert (reply.ok, reply.status, reply.code, reply.action) == (True, "executed", Code.OK, "none")
    assert reply.result is not None
    assert (reply.result["amount_cents"], reply.result["currency"]) == (4_999, "USD")
    progress = await api.get(f"/v1/tool-calls/{reply.request_id}", token)
    assert (progress.status_code, progress.json()) == (200, answer.json())


async def test_the_same_key_and_arguments_are_the_same_call_for_ever(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    arguments = refund_arguments(order, 4_999)
    token, later = await tenant.run(order["customer_id"]), await tenant.run(order["customer_id"])
    answers = await asyncio.gather(*(api.call(token, arguments) for _ in range(10)))
    answers.append(await api.call(later, arguments))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert len(await api.service.outside.effects(order)) == 1


async def test_the_same_key_with_other_arguments_is_a_conflict(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    token = await tenant.run(order["customer_id"])
    first = refund_arguments(order, 4_999)
    await api.call(token, first)
    for change in ({"amount_cents": 4_998}, {"note": "another"}, {"reason_code": "late_delivery"}):
        answer = await api.call(token, {**first, **change})
        assert (answer.status_code, answer.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")
        assert answer.json()["invalid_fields"] == ["idempotency_key"]
        assert "result" not in answer.json()
    assert len(await api.service.outside.effects(order)) == 1


@pytest.mark.parametrize("change", [{"agent_id": "other-bot"}, {"customer_id": "cus_another"}])
async def test_the_key_of_another_agents_or_customers_call_shows_nothing_of_it(
    api: Api, tenant: Tenant, change: dict[str, str]
) -> None:
    order = await api.service.outside.order()
    arguments = refund_arguments(order, 4_999)
    done = await api.call(await tenant.run(order["customer_id"]), arguments)
    binding = {"customer_id": str(order["customer_id"]), "agent_id": "support-bot"} | change
    other = await tenant.run(binding["customer_id"], agent_id=binding["agent_id"])
    answer = await api.call(other, arguments)
    assert (answer.status_code, answer.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert done.json()["request_id"] not in answer.text
    assert "re_" not in answer.text


async def test_the_same_key_of_another_tenant_is_another_call(api: Api, tenant: Tenant) -> None:
    order, other = await api.service.outside.order(), await api.tenant()
    arguments = refund_arguments(order, 1_000)
    answers = [await api.call(await each.run(order["customer_id"]), arguments) for each in (tenant, other)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json()["request_id"] != answers[1].json()["request_id"]


async def test_a_refusal_is_a_problem_that_says_what_to_do(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order(5_000)
    answer = await api.call(await tenant.run(order["customer_id"]), refund_arguments(order, 6_000))
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["code"] == "REFUND_EXCEEDS_PAID"
    assert problem["allowed"] == {"max_amount_cents": 5_000}
    assert problem["type"].endswith("/codes/REFUND_EXCEEDS_PAID")
    assert problem["title"] == REGISTRY[Code.REFUND_EXCEEDS_PAID].title
    assert problem["detail"] == problem["message"]
    assert problem["instance"] == f"/v1/tool-calls/{problem['request_id']}"
    assert (problem["ok"], problem["status"], problem["http_status"]) == (False, "refused", 422)
    code = await api.get(problem["type"].removeprefix("http://127.0.0.1:8080"))
    assert code.status_code == 200
    assert "REFUND_EXCEEDS_PAID" in code.text


async def test_a_limit_answers_429(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    token = await tenant.run(order["customer_id"])
    for n in range(5):
        assert (await api.call(token, refund_arguments(order, 100 + n))).status_code == 200
    answer = await api.call(token, refund_arguments(order, 105))
    assert (answer.status_code, answer.json()["code"]) == (429, "RATE_LIMITED")
    assert answer.json()["action"] == "stop_and_report"


async def test_progress_is_there_as_soon_as_it_was_promised(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    token = await tenant.run(order["customer_id"])
    for n in range(5):
        answer = await api.call(token, refund_arguments(order, 100 + n), wait=0)
        assert answer.status_code in (200, 202)
        request_id = answer.json()["request_id"]
        progress = await api.get(f"/v1/tool-calls/{request_id}", token)
        assert progress.status_code == 200
        assert progress.json()["request_id"] == request_id
        settled = await api.get(f"/v1/tool-calls/{request_id}", token, params={"wait_seconds": 60})
        assert settled.json()["status"] == "executed"


async def test_a_parked_call_is_202_until_a_person_decides(api: Api, tenant: Tenant) -> None:
    approval = await tenant.parked()
    token, path = approval["run_token"], f"/v1/tool-calls/{approval['request_id']}"
    reply = (await api.get(path, token)).json()
    assert (reply["ok"], reply["status"], reply["code"]) == (True, "pending_approval", "PENDING_APPROVAL")
    assert reply["expires_at"] == approval["expires_at"]
    waiting = asyncio.create_task(api.get(path, token, params={"wait_seconds": 60}))
    decided = await api.post(
        f"/v1/approvals/{approval['approval_id']}/decision",
        tenant.approver_token,
        json={"decision": "approve", "action_digest": approval["action_digest"]},
    )
    assert (decided.status_code, decided.json()) == (200, {"status": "approved"})
    assert (await waiting).json()["status"] == "executed"
    assert len(await api.service.outside.effects(approval["order"])) == 1


async def test_a_parked_call_can_be_withdrawn_once_and_an_executed_one_not(api: Api, tenant: Tenant) -> None:
    approval = await tenant.parked()
    token, path = approval["run_token"], f"/v1/tool-calls/{approval['request_id']}/cancel"
    answer = await api.post(path, token)
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert (await api.post(path, token)).json() == answer.json()
    late = await api.post(
        f"/v1/approvals/{approval['approval_id']}/decision",
        tenant.approver_token,
        json={"decision": "approve", "action_digest": approval["action_digest"]},
    )
    assert late.status_code == 409
    assert await api.service.outside.effects(approval["order"]) == []

    order = await api.service.outside.order()
    token = await tenant.run(order["customer_id"])
    done = (await api.call(token, refund_arguments(order, 1_000))).json()
    answer = await api.post(f"/v1/tool-calls/{done['request_id']}/cancel", token)
    assert (answer.status_code, answer.json()["status"]) == (409, "executed")


async def test_another_run_of_the_agent_reads_a_call_and_withdraws_it_for_the_same_customer_alone(
    tenant: Tenant,
) -> None:
    approval, api = await tenant.parked(), tenant.api
    path, customer = f"/v1/tool-calls/{approval['request_id']}", approval["order"]["customer_id"]
    elsewhere, again = await tenant.run("cus_another"), await tenant.run(customer)
    refused = await api.post(f"{path}/cancel", elsewhere)
    assert (refused.status_code, refused.json()["code"]) == (404, "INVALID_INPUT")
    for token in (elsewhere, again):
        assert (await api.get(path, token)).json()["status"] == "pending_approval"
    assert (await api.post(f"{path}/cancel", again)).json()["status"] == "cancelled"


async def test_an_unknown_call_and_one_of_others_are_the_same_404(api: Api, tenant: Tenant) -> None:
    approval = await tenant.parked()
    other = await api.tenant()
    customer = approval["order"]["customer_id"]
    strangers = [await other.run(customer), await tenant.run(customer, agent_id="other-bot")]
    ids = [approval["request_id"], "act_" + "0" * 32]

    async def seen(token: str, request_id: str, *, cancel: bool) -> tuple[int, dict[str, Any], list[str]]:
        path = f"/v1/tool-calls/{request_id}"
        answer = await (api.post(f"{path}/cancel", token) if cancel else api.get(path, token))
        problem = answer.json()
        assert problem.pop("request_id") != request_id
        problem.pop("instance")
        return answer.status_code, problem, sorted(answer.headers)

    for cancel in (False, True):
        answers = [await seen(token, each, cancel=cancel) for token in strangers for each in ids]
        assert answers[0][0] == 404
        assert all(answer == answers[0] for answer in answers)
    assert (await api.get(f"/v1/tool-calls/{approval['request_id']}", approval["run_token"])).status_code == 200


@pytest.mark.parametrize("odd", ["%00", "act_%00", "act_", "x" * 5_000, "%ff", "act_'--", "..%2f..", "🙂"])
async def test_an_id_of_any_form_is_the_same_404(tenant: Tenant, odd: str) -> None:
    token = await tenant.run("cus_1")
    for method, path in (("GET", f"/v1/tool-calls/{odd}"), ("POST", f"/v1/tool-calls/{odd}/cancel")):
        answer = await tenant.api.request(method, path, token)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("amount", "verdict", "code", "ok"),
    [
        (4_999, "notify", "OK", True),
        (25_000, "hold", "PENDING_APPROVAL", True),
        (50_000, "refuse", "REFUND_EXCEEDS_PAID", False),
    ],
)
async def test_a_dry_run_says_what_would_happen_and_leaves_nothing(
    api: Api, tenant: Tenant, amount: int, verdict: str, code: str, ok: bool
) -> None:
    order = await api.service.outside.order(30_000)
    token = await tenant.run(order["customer_id"])
    before = await api.rows()
    answer = await api.call(token, refund_arguments(order, amount), dry_run=True)
    assert answer.status_code == 200
    reply = Reply.model_validate_json(answer.content)
    assert (reply.dry_run, reply.decision, reply.code, reply.ok) == (True, verdict, code, ok)
    assert await api.rows() == before
    assert await api.service.outside.effects(order) == []
    unknown = await api.get(f"/v1/tool-calls/{reply.request_id}", token)
    assert unknown.status_code == 404


async def test_a_dry_run_takes_no_key_and_no_limit(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    token = await tenant.run(order["customer_id"])
    arguments = refund_arguments(order, 100)
    for _ in range(7):
        assert (await api.call(token, arguments, dry_run=True)).json()["decision"] == "notify"
    assert (await api.call(token, arguments)).json()["status"] == "executed"


async def test_a_key_whose_workflow_failed_before_it_was_admitted_is_not_burnt(api: Api, tenant: Tenant) -> None:
    """A run that closed between the request and its admission, or somebody who started it wrongly."""
    order = await api.service.outside.order()
    service = api.service
    token = await tenant.run(order["customer_id"])
    holder = await service.core.ledger.principals.authenticate(token)
    assert holder is not None
    assert holder.binding is not None
    arguments = refund_arguments(order, 1_000)
    request, call_id = await service.input_for(holder.binding.run_id, arguments)
    wrong = await service.start(request.model_copy(update={"run_id": "run_" + "0" * 32}), call_id)
    with pytest.raises(WorkflowFailureError):
        await wrong.handle.result()
    answer = await api.call(token, arguments)
    assert (answer.status_code, answer.json()["status"]) == (200, "executed")


class _NoTemporal:
    """A client whose server is away."""

    async def _fail(self, *arguments: Any, **more: Any) -> Any:
        raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")

    start_workflow = execute_workflow = signal = _fail

    def get_workflow_handle(self, workflow_id: str) -> "_NoTemporal":
        return self


async def test_without_temporal_nothing_is_started_and_the_same_key_may_be_sent_again(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    token, arguments = await tenant.run(order["customer_id"]), refund_arguments(order, 1_000)
    before = await api.rows()
    with api.over(temporal=cast("Client", _NoTemporal())):
        for dry_run in (False, True):
            answer = await api.call(token, arguments, dry_run=dry_run)
            assert answer.status_code == 503
            problem = answer.json()
            assert (problem["code"], problem["retryable"]) == ("TEMPORARY_FAILURE", True)
            assert answer.headers["retry-after"] == str(problem["retry_after_seconds"])
        assert await api.rows() == before
    assert (await api.call(token, arguments)).json()["status"] == "executed"


class _FailingPreviews:
    """A client whose dry runs fail: their run was closed meanwhile, or nobody worked them off in time."""

    async def execute_workflow(self, *arguments: Any, **more: Any) -> Any:
        raise WorkflowFailureError(cause=ApplicationError("closed", type="RunClosed"))


async def test_a_dry_run_that_fails_may_be_asked_for_again(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    token = await tenant.run(order["customer_id"])
    with api.over(temporal=cast("Client", _FailingPreviews())):
        answer = await api.call(token, refund_arguments(order, 1_000), dry_run=True)
    assert (answer.status_code, answer.json()["code"]) == (503, "TEMPORARY_FAILURE")


async def test_a_decision_and_a_withdrawal_stand_although_temporal_is_away(api: Api, tenant: Tenant) -> None:
    approval, other = await tenant.parked(), await tenant.parked()
    with api.over(temporal=cast("Client", _NoTemporal())):
        decided = await api.post(
            f"/v1/approvals/{approval['approval_id']}/decision",
            tenant.approver_token,
            json={"decision": "deny", "action_digest": approval["action_digest"], "reason": "no"},
        )
        assert decided.json() == {"status": "denied"}
        withdrawn = await api.post(f"/v1/tool-calls/{other['request_id']}/cancel", other["run_token"])
        assert withdrawn.json()["status"] == "cancelled"
    for each, status in ((approval, "denied"), (other, "cancelled")):
        progress = await api.get(f"/v1/tool-calls/{each['request_id']}", each["run_token"])
        assert progress.json()["status"] == status


async def test_while_nobody_works_off_the_queue_the_call_is_in_progress(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    token, arguments = await tenant.run(order["customer_id"]), refund_arguments(order, 1_000)
    with api.over(task_queue=f"nobody-{secrets.token_hex(4)}", eager_start=False):
        answer = await api.call(token, arguments, wait=0)
        assert (answer.status_code, answer.json()["code"]) == (202, "IN_PROGRESS")
        again = await api.call(token, arguments, wait=0)
        assert (again.status_code, again.json()["code"]) == (503, "TEMPORARY_FAILURE")
    call_id = workflow_id(tenant.name, "issue_refund", key_hash(str(arguments["idempotency_key"])))
    await api.service.temporal.get_workflow_handle(call_id).terminate("it never began")
    assert (await api.call(token, arguments)).json()["status"] == "executed"
    assert len(await api.service.outside.effects(order)) == 1


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/v1/nothing", 404), ("DELETE", "/v1/runs", 405)])
async def test_what_is_no_route_is_a_problem_too(api: Api, method: str, path: str, status: int) -> None:
    answer = await api.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["http_status"] == status
    if status == 405:
        assert "POST" in answer.headers["allow"]
