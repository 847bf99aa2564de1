"""Decisions as they reach a parked workflow: by signal and by update, good, bad, early, late and twice."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import TimeSkipper

from ledger.approvals import Verdict
from ledger.keys import MasterKey
from ledger.signing import DecisionSigner
from schemas.codes import Code
from schemas.decisions import Approval, SignedDecision
from schemas.events import DecisionRejected
from tests.service import PATIENCE, Service, Started, human_decision, until
from tests.workflows.paths import names
from workflows.tool_call import APPROVAL_ID

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def _parked(service: Service) -> tuple[dict[str, Any], Started, Approval]:
    order = await service.outside.order(50_000)
    return order, *await service.parked(order)


async def _rejections(service: Service, started: Started, count: int) -> list[str]:
    """Why decisions were rejected, once there are `count`."""

    async def look() -> list[str] | None:
        found = [event.because for event in await service.events(started) if isinstance(event, DecisionRejected)]
        return found if len(found) >= count else None

    return await until(look)


async def _update(started: Started, name: str, *arguments: Any) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        return await started.handle.execute_update(name, *arguments)


async def test_an_unsigned_decision_leaves_it_parked_and_a_valid_one_still_works(running: Service) -> None:
    order, started, approval = await _parked(running)
    forger = DecisionSigner(MasterKey(bytes(32)))
    for token in ("", "approve", forger.sign(human_decision(approval, "approve"))):
        forged = SignedDecision(approval_id=approval.approval_id, verdict="approve", token=token)
        await started.handle.signal("decide", forged)
    assert await _rejections(running, started, 3) == ["not_signed_by_the_approval_surface"] * 3
    assert (await running.record(started)).status == "pending_approval"
    assert await running.outside.effects(order) == []
    await started.handle.signal("decide", running.decision(approval, "approve"))
    assert (await running.finish(started)).code is Code.OK
    assert len(await running.outside.effects(order)) == 1


async def test_it_waits_for_the_second_person(running: Service) -> None:
    order = await running.outside.order(50_000)
    started, approval = await running.parked(order, 45_000)
    alone = await _update(started, "decide", running.decision(approval, "approve", approver="ana"))
    assert alone["status"] == "pending_approval"
    both = await _update(started, "decide", running.decision(approval, "approve", approver="ben"))
    assert both["code"] == "OK"
    assert len(await running.outside.effects(order)) == 1


async def test_an_approval_that_came_too_late_to_act_on_is_asked_for_again(running: Service) -> None:
    order, started, approval = await _parked(running)
    late = running.decision(approval, "approve")
    ledger = running.core.ledger
    await ledger.of(approval.tenant).approvals.decide(running.services.verifier.verify(late.token), late.token)
    await ledger.system.execute(
        "UPDATE decisions SET decided_at = decided_at - interval '2 hours' WHERE approval_id = $1", approval.approval_id
    )
    answer = await _update(started, "decide", late)
    assert answer["status"] == "pending_approval"
    again = await running.approval(await running.record(started))
    assert again.approval_id != approval.approval_id

    async def found() -> bool | None:
        attributes = (await started.handle.describe()).typed_search_attributes
        return attributes.get(APPROVAL_ID) == again.approval_id or None

    await until(found)
    assert await running.outside.effects(order) == []
    answer = await _update(started, "decide", running.decision(again, "approve"))
    assert answer["code"] == "OK"
    assert len(await running.outside.effects(order)) == 1


async def test_a_decision_by_update_answers_with_where_the_call_came_to_rest(running: Service) -> None:
    order, started, approval = await _parked(running)
    forged = SignedDecision(approval_id=approval.approval_id, verdict="deny", token="x.y.z")
    assert (await _update(started, "decide", forged))["status"] == "pending_approval"
    assert await _rejections(running, started, 1) == ["not_signed_by_the_approval_surface"]
    answer = await _update(started, "decide", running.decision(approval, "approve"))
    assert answer == {"request_id": started.request.request_id, "status": "executed", "code": "OK"}
    assert len(await running.outside.effects(order)) == 1
    assert (await running.finish(started)).status == "executed"


async def test_status_answers_by_query_and_by_update(running: Service) -> None:
    _, started, approval = await _parked(running)
    expected = {"request_id": started.request.request_id, "status": "pending_approval", "code": "PENDING_APPROVAL"}
    assert await started.handle.query("status") == expected
    assert await _update(started, "status") == expected
    await _update(started, "decide", running.decision(approval, "deny", reason="no"))
    assert (await started.handle.query("status"))["status"] == "denied"


async def test_ten_deliveries_of_one_approval_send_once(running: Service) -> None:
    order, started, approval = await _parked(running)
    decision = running.decision(approval, "approve")
    deliveries = [started.handle.signal("decide", decision) for _ in range(10)]
    await asyncio.gather(*deliveries, return_exceptions=True)
    record = await running.finish(started)
    assert record.code is Code.OK
    assert await running.outside.sends(record) == 1
    assert len(await running.outside.effects(order)) == 1


async def test_approval_and_withdrawal_at_once_have_one_winner(running: Service) -> None:
    for _ in range(5):
        order, started, approval = await _parked(running)
        signalled = await asyncio.gather(
            started.handle.signal("withdraw"),
            started.handle.signal("decide", running.decision(approval, "approve")),
            return_exceptions=True,
        )
        # The one that came first may have ended the workflow by the time the other came.
        assert all(isinstance(each, RPCError) and each.status is RPCStatusCode.NOT_FOUND for each in signalled if each)
        assert None in signalled
        record = await running.finish(started)
        assert record.status in ("executed", "cancelled")
        assert len(await running.outside.effects(order)) == (record.status == "executed")


async def test_a_withdrawal_before_it_parks_is_kept(running: Service) -> None:
    order = await running.outside.order(50_000)
    request, call_id = await running.proposal(order, 25_000)
    handle = await running.temporal.start_workflow(
        "ToolCall", request, id=call_id, task_queue=running.services.task_queue, start_signal="withdraw"
    )
    assert (await running.finish(Started(request, handle))).status == "cancelled"


async def test_a_recorded_decision_is_taken_although_the_deadline_woke_the_workflow(running: Service) -> None:
    """Approved in the database in the last moment, and the signal is still on its way when the timer fires."""
    order, started, approval = await _parked(running)
    decision = running.decision(approval, "approve")
    record = await running.record(started)
    await running.core.ledger.approvals.decide(running.services.verifier.verify(decision.token), decision.token)
    await TimeSkipper(running.temporal).fast_forward(started.handle)
    record = await running.finish(started)
    assert record.code is Code.OK
    assert len(await running.outside.effects(order)) == 1


async def _extended(service: Service, approval: Approval) -> None:
    """Eight hours more."""
    approvals, more = service.core.ledger.of(approval.tenant).approvals, approval.expires_at + timedelta(hours=8)
    assert await approvals.extend(approval, more, by="ana", reason="the bank calls back") is Verdict.RECORDED


async def test_more_time_is_waited_for_and_what_is_approved_in_it_runs(running: Service) -> None:
    order, started, approval = await _parked(running)
    await _extended(running, approval)
    # The timer of the first deadline fires. The ledger knows of the second.
    await TimeSkipper(running.temporal).fast_forward(started.handle, timedelta(hours=24, seconds=5))
    await _armed(started, 2)
    assert (await running.record(started)).status == "pending_approval"
    await started.handle.signal("decide", running.decision(approval, "approve"))
    assert (await running.finish(started)).code is Code.OK
    assert len(await running.outside.effects(order)) == 1


async def test_more_time_ends_too(running: Service) -> None:
    order, started, approval = await _parked(running)
    await _extended(running, approval)
    await TimeSkipper(running.temporal).fast_forward(started.handle, timedelta(hours=24, seconds=5))
    assert timedelta(hours=7) < await _armed(started, 2) <= timedelta(hours=8)
    await running.core.ledger.system.execute(
        "UPDATE approvals SET expires_at = now() - interval '1 second' WHERE approval_id = $1", approval.approval_id
    )
    await TimeSkipper(running.temporal).fast_forward(started.handle)
    assert (await running.finish(started)).code is Code.APPROVAL_EXPIRED
    assert await running.outside.effects(order) == []


async def _armed(started: Started, count: int) -> timedelta:
    """How long the last timer of the workflow runs, once it has set `count`."""

    async def look() -> timedelta | None:
        history = await started.handle.fetch_history()
        timers = [
            event.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta()
            for event in history.events
            if event.HasField("timer_started_event_attributes")
        ]
        return timers[-1] if len(timers) >= count else None

    return await until(look)


async def test_a_workflow_whose_clock_runs_ahead_asks_again_without_haste_and_stays_parked(running: Service) -> None:
    """Only the database's clock ends an approval."""
    order, started, approval = await _parked(running)
    await TimeSkipper(running.temporal).fast_forward(started.handle, timedelta(hours=24, seconds=5))
    assert (await running.record(started)).status == "pending_approval"
    await started.handle.signal("decide", running.decision(approval, "approve"))
    assert (await running.finish(started)).code is Code.OK
    assert len(await running.outside.effects(order)) == 1
    history = await started.handle.fetch_history()
    timers = [
        event.timer_started_event_attributes
        for event in history.events
        if event.HasField("timer_started_event_attributes")
    ]
    assert len(timers) >= 2
    assert all(timer.start_to_fire_timeout.ToTimedelta() >= timedelta(seconds=1) for timer in timers)
    assert len(timers) < 15, names(history.events)


@pytest.mark.parametrize("arguments", [(), ("approve",), ({"token": 1},), (None,), ("a", "b")])
async def test_a_garbled_decision_is_dropped_and_stops_nothing(running: Service, arguments: tuple[Any, ...]) -> None:
    _, started, approval = await _parked(running)
    await started.handle.signal("decide", args=arguments)
    with pytest.raises(WorkflowUpdateFailedError):
        await asyncio.wait_for(started.handle.execute_update("decide", args=arguments), PATIENCE)
    await started.handle.signal("decide", running.decision(approval, "deny", reason="no"))
    assert (await running.finish(started)).status == "denied"


async def test_a_withdrawal_with_baggage_stops_nothing(running: Service) -> None:
    _, started, _ = await _parked(running)
    await started.handle.signal("no_such_signal", "please")
    await started.handle.signal("withdraw", "please")
    assert (await running.finish(started)).status == "cancelled"
