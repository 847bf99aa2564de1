"""Everything dies; the next start goes on from what was committed."""

import asyncio
from pathlib import Path

import psutil
from temporalio.client import Client

from runtime.stack.child import wait_until_ended
from tests.e2e.running import Customer, RunningStack
from tests.e2e.spans import await_spans
from tests.e2e.test_traces import Traced
from tests.service import until

# What a process had not exported yet when it was killed is lost.
OFTEN = {"OTEL_BSP_SCHEDULE_DELAY": "100"}


def test_parked_calls_survive_sigkill_of_everything(tmp_path: Path) -> None:
    data = tmp_path / "data"
    stack = RunningStack.start(data, OFTEN)
    customers = [stack.order() for _ in range(5)]
    parked = [customer.refund(25_000).json() for customer in customers[1:]]
    with Traced(stack) as agent:
        parked.insert(0, customers[0].refund(25_000).json())
    await_spans(stack, agent.trace_id, "POST /v1/tool-calls", "counterseal.admit")
    asyncio.run(_rest(stack, 5))
    assert [each["code"] for each in parked] == ["PENDING_APPROVAL"] * 5
    first, started = stack.info, psutil.Process(stack.process.pid).children(recursive=True)
    stack.kill_everything()
    assert wait_until_ended(started, seconds=20) == []

    stack = RunningStack.start(data, OFTEN)
    try:
        assert stack.info | {"pids": first["pids"]} == first
        for customer, call in zip(customers, parked, strict=True):
            customer.stack = stack
            assert customer.progress(call["request_id"], wait=0)["status"] == "pending_approval"
        for customer, call in zip(customers, parked, strict=True):
            assert customer.decide("approve").status_code == 200
            assert customer.progress(call["request_id"])["status"] == "executed"
            _assert_paid_once(customer, 25_000)
        trace = await_spans(stack, agent.trace_id, "approval.wait", "counterseal.execute", "POST /v1/refunds")
        assert trace.roots(agent.span_id) == []
        # The workflow was replayed from its history by a new worker.
        once = ("POST /v1/tool-calls", "counterseal.admit", "approval.wait", "counterseal.execute", "POST /v1/refunds")
        assert {name: trace.names[name] for name in once} == dict.fromkeys(once, 1)
    finally:
        assert stack.stop() == 0


async def _rest(stack: RunningStack, calls: int) -> None:
    """Once so many wait in Temporal, too: what was killed before it was known there is done again."""
    client = await Client.connect(stack.info["temporal"])

    async def waiting() -> bool | None:
        return (await client.count_workflows("CallStatus = 'pending_approval'")).count == calls or None

    await until(waiting)


def _assert_paid_once(customer: Customer, amount: int) -> None:
    assert [each["amount"] for each in customer.effects()] == [amount]
    assert customer.posts() == 1
