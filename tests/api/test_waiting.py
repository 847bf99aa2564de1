"""Who waits for a call: handed it by this process, or told by a look at the database, and how often that is asked."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from api.waiting import Waiters
from ledger.calls import Calls
from ledger.records import SETTLED, CallRecord
from schemas.codes import Status
from tests.service import PATIENCE


class Stored:
    """Calls by what the database says of them, and which were asked about."""

    def __init__(self) -> None:
        self.states: dict[str, Status] = {}
        self.looks: list[list[str]] = []

    async def statuses(self, workflow_ids: Sequence[str]) -> dict[str, Status]:
        self.looks.append(list(workflow_ids))
        return {each: self.states[each] for each in workflow_ids if each in self.states}


class Record:
    def __init__(self, workflow_id: str, status: Status) -> None:
        self.workflow_id, self.status = workflow_id, status

    def __call__(self) -> CallRecord:
        return cast(CallRecord, self)


def waiters(stored: Stored, poll_seconds: float = PATIENCE) -> Waiters:
    return Waiters(cast(Calls, stored), poll_seconds=poll_seconds)


async def test_a_call_that_this_process_moves_is_handed_over_and_nobody_is_asked() -> None:
    stored = Stored()
    waiting = waiters(stored)
    asked = [asyncio.create_task(waiting.wait("one", PATIENCE, just_begun=True)) for _ in range(2)]
    other = asyncio.create_task(waiting.wait("another", PATIENCE, just_begun=True))
    await asyncio.sleep(0)
    moved = Record("one", "executed")()
    waiting.moved(moved)
    assert await asyncio.gather(*asked) == [moved, moved]
    assert not other.done()
    assert stored.looks == []
    other.cancel()


async def test_a_call_that_moved_to_where_nobody_waits_for_it_wakes_nobody() -> None:
    waiting = waiters(Stored())
    asked = asyncio.create_task(waiting.wait("one", PATIENCE, SETTLED, just_begun=True))
    await asyncio.sleep(0)
    waiting.moved(Record("one", "pending_approval")())
    executed = Record("one", "executed")()
    waiting.moved(executed)
    assert await asked is executed


async def test_a_call_that_may_rest_already_is_looked_for_at_once() -> None:
    stored = Stored()
    stored.states["one"] = "executed"
    assert await waiters(stored).wait("one", PATIENCE) is None
    assert stored.looks == [["one"]]


async def test_a_call_that_another_process_moves_is_found() -> None:
    stored = Stored()
    waiting = waiters(stored, poll_seconds=0.002)
    asked = asyncio.create_task(waiting.wait("one", PATIENCE, just_begun=True))
    async with asyncio.timeout(PATIENCE):
        while not stored.looks:
            await asyncio.sleep(0)
    stored.states["one"] = "executed"
    async with asyncio.timeout(PATIENCE):
        assert await asked is None


async def test_who_waits_for_long_is_looked_for_less_often() -> None:
    stored = Stored()
    await waiters(stored, poll_seconds=0.01).wait("one", 1.0)
    # Every hundredth of a second it would be a hundred; at first that, at last a tenth of it.
    assert 5 < len(stored.looks) < 50


async def test_a_database_that_does_not_answer_is_told_to_all_who_wait() -> None:
    class Away(Stored):
        async def statuses(self, workflow_ids: Sequence[str]) -> dict[str, Status]:
            raise OSError("away")

    waiting = waiters(Away())
    found = await asyncio.gather(*(waiting.wait(each, PATIENCE) for each in "ab"), return_exceptions=True)
    assert [type(each) for each in found] == [OSError, OSError]
    with pytest.raises(OSError, match="away"):
        await waiting.wait("c", PATIENCE)
