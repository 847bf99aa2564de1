"""Answers that were lost, and effects that were undone: looked up, settled by people, looked at again."""

import asyncio
import secrets
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from api.looking import look_again
from ledger.records import CallRecord
from ledger.reviews import Conclusion
from policy.in_force import Fixed
from runtime.healing import Healer
from schemas.codes import Code
from schemas.ids import recheck_id
from tests.service import Service, Started, refund_arguments, until, working

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_outcome_that_shows_late_stays_unknown_until_it_shows(running: Service) -> None:
    order = await running.outside.order()
    await running.outside.fault("late_visible:1", order)
    started = await running.refund(order, 4_000)
    seen: list[str] = []

    async def look() -> bool | None:
        record = await running.record(started)
        seen.append(record.status)
        return True if record.settled else None

    await running.waiters.wait(started.handle.id, 60, frozenset({"outcome_unknown"}))
    await until(look)
    record = await running.finish(started)
    assert record.code is Code.OK
    assert "outcome_unknown" in seen
    assert await running.outside.sends(record) == 1
    types = await running.event_types(started)
    assert types.count("effect.inspected") >= 2
    assert types.count("effect.unknown") == 1


async def test_a_call_waits_while_it_cannot_be_told_what_is_left_for_it(running: Service) -> None:
    """What is left is what the gateway says, less what is on its way; and one is counted there and not listed yet."""
    order = await running.outside.order(9_000)
    await running.outside.fault("late_visible:2", order)
    first = await running.refund(order, 4_000)
    await running.waiters.wait(first.handle.id, 60, frozenset({"outcome_unknown"}))
    second = await running.start(*await running.input_for(first.request.run_id, refund_arguments(order, 4_900)))
    assert (await running.finish(second)).code is Code.OK
    assert (await running.finish(first)).code is Code.OK
    assert sorted(each["amount"] for each in await running.outside.effects(order)) == [4_000, 4_900]


@pytest.mark.parametrize(("do", "sends"), [("commit_then_500", 1), ("drop_before_read", 2), ("in_use", 2)])
async def test_what_is_there_is_found_and_what_is_not_is_sent_again_under_its_key(
    running: Service, do: str, sends: int
) -> None:
    order = await running.outside.order()
    await running.outside.fault(do, order)
    record = await running.finish(await running.refund(order, 4_000))
    assert record.code is Code.OK
    assert len(await running.outside.effects(order)) == 1
    assert await running.outside.sends(record) == sends


async def _reviewed(running: Service, stack: AsyncExitStack) -> tuple[Service, Started]:
    """A call that a person has to settle, under a policy that sends nothing twice."""
    policy = await running.services.policies.now()
    tools = {name: replace(tool, when_absent="review") for name, tool in policy.tools.items()}
    queue = f"tests-{secrets.token_hex(4)}"
    careful = running.elsewhere(policies=Fixed(replace(policy, tools=tools)), task_queue=queue)
    await stack.enter_async_context(working(careful))
    order = await careful.outside.order()
    await careful.outside.fault("503", order)
    started = await careful.refund(order, 4_000)

    async def in_review() -> bool | None:
        await careful.waiters.wait(started.handle.id, 60, frozenset({"outcome_unknown"}))
        return True if (await careful.record(started)).review else None

    await until(in_review)
    return careful, started


@pytest.mark.parametrize("happened", [True, False])
async def test_a_call_that_a_person_settled_ends_then(running: Service, happened: bool) -> None:
    async with AsyncExitStack() as stack:
        careful, started = await _reviewed(running, stack)
        record = await careful.record(started)
        conclusion = Conclusion(
            operator="olga", because="absent", happened=happened, evidence="seen in the dashboard", done="it"
        )
        await careful.core.ledger.of(record.tenant).reviews.conclude(record.request_id, conclusion)
        await started.handle.signal("look")
        record = await careful.finish(started)
        assert record.status == ("executed" if happened else "failed")
        assert await careful.outside.sends(record) == 1


async def test_what_is_said_while_a_look_is_far_off_is_looked_at_at_once(running: Service) -> None:
    """As a webhook says it: the refund was there all along, only the list did not show it."""
    async with AsyncExitStack() as stack:
        careful, started = await _reviewed(running, stack)
        record = await careful.record(started)
        effect = record.details.effect
        assert effect is not None
        entry = careful.services.catalog.get("issue_refund")
        assert entry is not None
        with careful.services.outside(entry, record.tenant) as systems:
            await entry.tool.execute(effect, systems)  # pyright: ignore[reportAttributeAccessIssue]
        call = await careful.core.ledger.calls.by_effect(effect.operation_id, None)
        assert call is not None
        core = careful.core
        await look_again(
            core.temporal, core.catalog, careful.services.task_queue, call, public_url="http://counterseal.test"
        )
        record = await careful.finish(started)
        assert (record.code, record.review) == (Code.OK, None)


async def _recheck(service: Service, started: Started) -> CallRecord:
    """What the call is once it has been looked at again."""
    record = await service.record(started)
    call = await service.core.ledger.calls.by_effect(None, record.remote_id)
    assert call is not None
    assert call.request_id == record.request_id
    await look_again(
        service.temporal, service.core.catalog, service.services.task_queue, call, public_url="http://counterseal.test"
    )
    async with asyncio.timeout(30):
        await service.temporal.get_workflow_handle(recheck_id(call.workflow_id)).result()
    return await service.record(started)


async def test_a_refund_that_failed_later_is_found_out_by_looking_again(running: Service) -> None:
    order = await running.outside.order()
    await running.outside.fault("pending_then_failed", order)
    started = await running.refund(order, 10_000)
    assert (await running.finish(started)).status == "executed"
    assert (await _recheck(running, started)).status == "failed"
    assert (await _recheck(running, started)).status == "failed"
    again = await running.finish(await running.refund(order, 10_000))
    assert again.code is Code.OK


async def test_what_is_due_is_looked_at_again_without_any_webhook(running: Service) -> None:
    order = await running.outside.order()
    await running.outside.fault("pending_then_failed", order)
    started = await running.refund(order, 4_000)
    record = await running.finish(started)
    await running.core.ledger.system.execute(
        "UPDATE calls SET recheck_at = now() - interval '1 second' WHERE request_id = $1", record.request_id
    )
    core = running.core
    healer = Healer(
        core.ledger, core.temporal, core.catalog, running.services.task_queue, public_url="http://counterseal.test"
    )
    assert await healer.recheck() == 1

    async def failed() -> bool | None:
        return True if (await running.record(started)).status == "failed" else None

    await until(failed)
    assert await healer.recheck() == 0
