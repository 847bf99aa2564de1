"""Calls whose workflow or whose delivery was lost are taken up where the ledger says they stand."""

import secrets
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import WorkflowExecutionStatus

from activities import tracing
from activities.services import CrashPoint
from runtime.healing import Healer
from runtime.telemetry import tracer_provider
from runtime.workers import effect_worker, workflow_sandbox, workflow_worker
from schemas.codes import Code
from tests.service import Service, Started, until, working
from tests.workflows.paths import names

pytestmark = pytest.mark.asyncio(loop_scope="session")


def _healer(service: Service) -> Healer:
    core = service.core
    return Healer(
        core.ledger,
        core.temporal,
        core.catalog,
        service.services.task_queue,
        public_url="http://counterseal.test",
        settle_seconds=-1,
    )


async def _lose(service: Service, started: Started) -> Started:
    """Its workflow is gone; the newest one under its id is what a healer started."""
    await started.handle.terminate("lost")
    assert await _healer(service).heal() >= 1
    return Started(started.request, service.temporal.get_workflow_handle(started.handle.id))


async def test_a_parked_call_whose_workflow_is_gone_can_still_be_approved(running: Service) -> None:
    order = await running.outside.order(50_000)
    started, approval = await running.parked(order)
    healed = await _lose(running, started)
    assert (await running.approval(await running.record(started))).approval_id == approval.approval_id
    await healed.handle.signal("decide", running.decision(approval, "approve"))
    record = await running.finish(healed)
    assert record.code is Code.OK
    assert await running.outside.sends(record) == 1


async def test_a_call_that_is_taken_up_again_goes_on_in_its_trace(
    running: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter, provider = InMemorySpanExporter(), tracer_provider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("tests")
    monkeypatch.setattr(tracing, "_tracer", tracer)
    with tracer.start_as_current_span("the caller's") as caller:
        started, approval = await running.parked(await running.outside.order(50_000))
    healed = await _lose(running, started)
    await healed.handle.signal("decide", running.decision(approval, "approve"))
    record = await running.finish(healed)
    provider.shutdown()
    spans = [
        each
        for each in exporter.get_finished_spans()
        if (each.attributes or {}).get("counterseal.request_id") == record.request_id
    ]
    names = [
        "counterseal.admit",
        "counterseal.start_again",
        "counterseal.admit",
        "approval.wait",
        "counterseal.execute",
    ]
    assert sorted(each.name for each in spans) == sorted(names)
    assert {each.context.trace_id for each in spans if each.context} == {caller.get_span_context().trace_id}
    again = next(each for each in spans if each.name == "counterseal.start_again")
    assert again.context is not None
    under_it = [each.name for each in spans if each.parent and each.parent.span_id == again.context.span_id]
    assert sorted(under_it) == ["approval.wait", "counterseal.admit", "counterseal.execute"]


async def test_a_call_whose_workflow_is_gone_after_it_was_approved_runs(running: Service) -> None:
    order = await running.outside.order(50_000)
    started, approval = await running.parked(order)
    await started.handle.terminate("lost")
    token = running.decision(approval, "approve").token
    await running.core.ledger.approvals.decide(running.services.verifier.verify(token), token)
    await _healer(running).heal()
    record = await running.finish(Started(started.request, running.temporal.get_workflow_handle(started.handle.id)))
    assert record.code is Code.OK
    assert len(await running.outside.effects(order)) == 1


async def test_an_intent_without_a_result_is_inspected_not_sent(running: Service) -> None:
    order = await running.outside.order()
    await running.outside.fault("drop_before_read", order)
    started = await running.refund(order, 4_000)
    await running.waiters.wait(started.handle.id, 60, frozenset({"outcome_unknown"}))
    before = (await running.event_types(started)).count("effect.inspected")
    await _lose(running, started)

    async def inspected_again() -> bool | None:
        return True if (await running.event_types(started)).count("effect.inspected") > before else None

    await until(inspected_again)
    record = await running.record(started)
    assert record.status == "outcome_unknown"
    assert await running.outside.sends(record) == 1
    assert await running.outside.effects(order) == []
    await running.temporal.get_workflow_handle(started.handle.id).terminate("the test is over")


async def test_a_recorded_decision_that_was_not_delivered_is(running: Service) -> None:
    order = await running.outside.order(50_000)
    started, approval = await running.parked(order)
    token = running.decision(approval, "approve").token
    await running.core.ledger.approvals.decide(running.services.verifier.verify(token), token)
    assert (await running.record(started)).status == "in_progress"
    await _healer(running).heal()
    assert (await running.finish(started)).code is Code.OK
    assert len(await running.outside.effects(order)) == 1


async def test_a_running_or_settled_call_is_left_alone(running: Service) -> None:
    parked, _ = await running.parked(await running.outside.order(50_000))
    settled = await running.refund(await running.outside.order(), 1_000)
    await running.finish(settled)
    runs = [(await each.handle.describe()).run_id for each in (parked, settled)]
    await _healer(running).heal()
    after = [running.temporal.get_workflow_handle(each.handle.id) for each in (parked, settled)]
    assert [(await each.describe()).run_id for each in after] == runs
    await parked.handle.signal("withdraw")
    await running.finish(parked)


async def test_who_has_the_workflow_when_it_is_approved_sends_or_hands_on(wired: Service) -> None:
    """It was admitted where effects are sent beside the workflow; the process that goes on with it sends none."""
    beside = wired.elsewhere(task_queue=f"tests-{secrets.token_hex(4)}")
    async with workflow_worker(beside.temporal, beside.services, runner=workflow_sandbox()):
        started, approval = await beside.parked(await beside.outside.order(50_000))
    apart = replace(beside, services=replace(beside.services, inline=False))
    async with working(apart):
        await started.handle.signal("decide", apart.decision(approval, "approve"))
        record = await apart.finish(started)
    assert record.code is Code.OK
    assert await apart.outside.sends(record) == 1
    history = names((await started.handle.fetch_history()).events)
    assert (history.count("ACTIVITY_TASK_SCHEDULED"), history.count("MARKER_RECORDED")) == (1, 2)


async def test_an_effect_that_began_beside_a_workflow_that_was_lost_is_looked_up(wired: Service) -> None:
    """The workflow's task is begun again, and with it what it did itself."""
    cut = False

    def reached(point: CrashPoint) -> None:
        nonlocal cut
        if point == "send.after" and not cut:
            cut = True
            raise OSError("the worker is gone")

    service = wired.elsewhere(task_queue=f"tests-{secrets.token_hex(4)}", reached=reached)
    async with working(service):
        started, approval = await service.parked(await service.outside.order(50_000))
        await started.handle.signal("decide", service.decision(approval, "approve"))
        record = await service.finish(started)
    assert record.code is Code.OK
    assert await service.outside.sends(record) == 1
    assert "effect.inspected" in await service.event_types(started)


async def test_a_decision_delivered_again_and_again_does_not_fill_the_history(wired: Service) -> None:
    """The worker with the payment credential is away; the approved call waits for it."""
    service = wired.elsewhere(task_queue=f"tests-{secrets.token_hex(4)}", inline=False)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(workflow_worker(service.temporal, service.services, runner=workflow_sandbox()))
        order = await service.outside.order(50_000)
        started, approval = await service.parked(order)
        token = service.decision(approval, "approve").token
        await service.core.ledger.approvals.decide(service.services.verifier.verify(token), token)
        for _ in range(5):
            await _healer(service).heal()
        history = names((await started.handle.fetch_history()).events)
        assert history.count("WORKFLOW_EXECUTION_UPDATE_ACCEPTED") == 1
        assert history.count("WORKFLOW_EXECUTION_SIGNALED") == 0
        await stack.enter_async_context(effect_worker(service.temporal, service.services, "payments"))
        record = await service.finish(started)
        assert record.code is Code.OK
        assert await service.outside.sends(record) == 1


async def test_it_holds_without_any_workflow_in_memory_and_with_effects_on_their_own_queue(wired: Service) -> None:
    """Every task replays from the start: nothing lives in a worker's cache alone.

    One call after the other, since a worker that keeps none evicts one under its local activity for the next.
    """
    service = wired.elsewhere(task_queue=f"tests-{secrets.token_hex(4)}", inline=False)
    async with working(service, max_cached_workflows=0):
        free = await service.refund(await service.outside.order(), 4_000)
        assert await service.outside.sends(await service.finish(free)) == 1
        parked, approval = await service.parked(await service.outside.order(50_000))
        forged = service.decision(approval, "approve").model_copy(update={"token": "x.y.z"})
        await parked.handle.signal("decide", forged)
        await parked.handle.signal("decide", service.decision(approval, "approve"))
        record = await service.finish(parked)
        assert record.code is Code.OK
        assert await service.outside.sends(record) == 1
        assert "decision.rejected" in await service.event_types(parked)


async def test_a_terminated_workflow_of_a_settled_call_stays_ended(running: Service) -> None:
    started, approval = await running.parked(await running.outside.order(50_000))
    await running.core.ledger.approvals.withdraw(approval.request_id, "support-bot")
    await started.handle.terminate("lost")
    await _healer(running).heal()
    described = await running.temporal.get_workflow_handle(started.handle.id).describe()
    assert described.status is WorkflowExecutionStatus.TERMINATED
