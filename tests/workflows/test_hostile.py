"""Starts by whoever can reach Temporal: they fail cleanly, leave nothing in the ledger, and hang nowhere."""

import asyncio
import secrets
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from ledger.keys import MasterKey
from runtime.codec import data_converter
from tests.service import PATIENCE, Service, refund_arguments

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def _fails(client: Client, queue: str, arguments: list[Any], call_id: str) -> str:
    """The type of the error that a started workflow fails with."""
    handle = await client.start_workflow("ToolCall", args=arguments, id=call_id, task_queue=queue)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()
    assert (await handle.describe()).status is WorkflowExecutionStatus.FAILED
    cause: BaseException | None = failed.value
    while cause is not None and not isinstance(cause, ApplicationError):
        cause = cause.__cause__
    assert isinstance(cause, ApplicationError)
    assert cause.type is not None
    return cause.type


def _id() -> str:
    return f"call/acme/issue_refund/{secrets.token_hex(32)}"


GARBAGE: dict[str, list[Any]] = {
    "nothing": [],
    "null": [None],
    "text": ["refund everything"],
    "number": [7],
    "list": [[1, 2]],
    "empty object": [{}],
    "unknown field": [{"run_id": "run_" + "0" * 32, "tool": "t", "request_id": "r", "arguments": {}, "tenant": "acme"}],
    "odd ids": [{"run_id": "\0", "tool": "issue_refund", "request_id": "act_1", "arguments": {}}],
    "two": [{"run_id": "run_" + "0" * 32}, {"again": True}],
}


@pytest.mark.parametrize("name", GARBAGE)
async def test_what_is_no_input_fails_the_workflow(running: Service, name: str) -> None:
    kind = await _fails(running.temporal, running.services.task_queue, GARBAGE[name], _id())
    assert kind == "INVALID_INPUT"


async def test_input_sealed_with_another_key_fails_the_workflow(running: Service) -> None:
    config = running.temporal.config()
    config["data_converter"] = data_converter(MasterKey(bytes(32)))
    stranger = Client(**config)
    request, call_id = await running.proposal(await running.outside.order(), 1_000)
    handle = await stranger.start_workflow("ToolCall", request, id=call_id, task_queue=running.services.task_queue)
    with pytest.raises(WorkflowFailureError):
        await asyncio.wait_for(running.temporal.get_workflow_handle(handle.id).result(), PATIENCE)


async def test_a_signal_sealed_with_another_key_stops_nothing(running: Service) -> None:
    config = running.temporal.config()
    config["data_converter"] = data_converter(MasterKey(bytes(32)))
    order = await running.outside.order(50_000)
    started, approval = await running.parked(order)
    decision = running.decision(approval, "approve")
    await Client(**config).get_workflow_handle(started.handle.id).signal("decide", decision)
    await started.handle.signal("decide", decision)
    assert (await running.finish(started)).status == "executed"


async def test_an_unknown_run_fails(running: Service) -> None:
    request, call_id = await running.proposal(await running.outside.order(), 1_000)
    unknown = request.model_copy(update={"run_id": "run_" + "0" * 32})
    assert await _fails(running.temporal, running.services.task_queue, [unknown], call_id) == "UnknownRun"


async def test_a_wrong_workflow_id_fails_and_leaves_nothing(running: Service) -> None:
    order = await running.outside.order()
    request, call_id = await running.proposal(order, 1_000)
    for wrong in (_id(), call_id.replace("issue_refund", "cancel_order"), call_id + "0", "refund-1"):
        kind = await _fails(running.temporal, running.services.task_queue, [request], wrong)
        assert kind == "WrongWorkflowId"
    stored = "SELECT count(*) FROM events WHERE request_id = $1"
    assert await running.core.ledger.system.fetchval(stored, request.request_id) == 0
    assert await running.outside.effects(order) == []


async def test_a_second_workflow_under_another_calls_request_id_fails(running: Service) -> None:
    order = await running.outside.order()
    first = await running.refund(order, 1_000)
    await running.finish(first)
    another, call_id = await running.input_for(first.request.run_id, refund_arguments(order, 1_000))
    taken = another.model_copy(update={"request_id": first.request.request_id})
    assert await _fails(running.temporal, running.services.task_queue, [taken], call_id) == "RequestIdTaken"
    assert len(await running.outside.effects(order)) == 1


async def test_a_settled_call_that_is_started_again_does_nothing_again(running: Service) -> None:
    order = await running.outside.order()
    first = await running.refund(order, 1_000)
    record = await running.finish(first)
    again = await running.start(first.request, first.handle.id)
    assert (await running.finish(again)).head == record.head
    assert len(await running.outside.effects(order)) == 1


async def test_the_key_of_a_call_with_other_arguments_finds_the_first_call(running: Service) -> None:
    order = await running.outside.order()
    first = await running.refund(order, 1_000)
    await running.finish(first)
    more = {**first.request.arguments, "amount_cents": 9_000}
    other, call_id = await running.input_for(first.request.run_id, more)
    again = await running.start(other, call_id)
    assert (await again.handle.result())["request_id"] == first.request.request_id
    assert [each["amount"] for each in await running.outside.effects(order)] == [1_000]
