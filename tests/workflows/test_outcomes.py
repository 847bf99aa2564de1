"""Answers that were lost: looked up, never repeated."""

import pytest

from schemas.codes import Code
from tests.service import Service, until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_outcome_that_shows_late_stays_unknown_until_it_shows(running: Service) -> None:
    order = await running.outside.order()
    await running.outside.fault("late_visible:2", order)
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


@pytest.mark.parametrize("do", ["commit_then_500", "drop_before_read"])
async def test_whatever_is_not_known_is_never_sent_again(running: Service, do: str) -> None:
    order = await running.outside.order()
    await running.outside.fault(do, order)
    started = await running.refund(order, 4_000)
    if do == "commit_then_500":
        record = await running.finish(started)
        assert record.code is Code.OK
    else:
        await running.waiters.wait(started.handle.id, 60, frozenset({"outcome_unknown"}))

        async def looked_twice() -> bool | None:
            return True if (await running.event_types(started)).count("effect.inspected") >= 2 else None

        await until(looked_twice)
        record = await running.record(started)
        assert record.status == "outcome_unknown"
        assert await running.outside.effects(order) == []
        await started.handle.terminate("the test is over")
    assert await running.outside.sends(record) == 1
