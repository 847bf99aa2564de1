"""Work under a lease: one process at a time, another one after it, and none that goes on when its lease is gone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from ledger.leases import Leases
from ledger.ledger import Ledger
from runtime.leading import Leader
from runtime.readiness import kept_ready
from tests.ledger.refunds import open_ledger
from tests.service import until

SECONDS = 1.5


@pytest.fixture
async def ledger(database: str) -> AsyncIterator[Ledger]:
    async with open_ledger(database) as opened:
        yield opened


class Work:
    """Done by several at once, if anything lets them."""

    def __init__(self) -> None:
        self.doing: list[int] = []

    def of(self, who: int) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            self.doing.append(who)
            try:
                await asyncio.Event().wait()
            finally:
                self.doing.remove(who)

        return work

    async def leader(self) -> int | None:
        assert len(self.doing) <= 1
        return self.doing[0] if self.doing else None


async def test_one_leads_and_another_follows_when_it_ends(ledger: Ledger) -> None:
    work = Work()
    tasks = [
        asyncio.create_task(Leader(ledger.leases, "work", lease_seconds=SECONDS).run(work.of(each))) for each in (0, 1)
    ]
    first = await until(work.leader)
    holder = "SELECT holder, term FROM leases"
    (before,) = await ledger.system.fetch(holder)
    for _ in range(3):  # it renews, and nobody else begins
        was = await ledger.system.fetchval("SELECT ends_at FROM leases")

        async def renewed(was: object = was) -> bool | None:
            return await ledger.system.fetchval("SELECT ends_at FROM leases") != was or None

        await until(renewed)
        assert await work.leader() == first
    tasks[first].cancel()
    await asyncio.gather(tasks[first], return_exceptions=True)
    assert await until(work.leader) == 1 - first
    (after,) = await ledger.system.fetch(holder)
    assert after["holder"] != before["holder"]
    assert after["term"] == before["term"] + 1
    tasks[1 - first].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_one_that_is_stopped_at_the_moment_when_it_has_the_lease_ends() -> None:
    class Stopping(Leases):
        """Whoever takes it is asked to stop before it hears that it has it."""

        def __init__(self) -> None:
            pass

        async def take(self, name: str, holder: str, seconds: float) -> int | None:
            leading.cancel()
            return 1

        async def give_back(self, name: str, holder: str) -> None:
            pass

    leading = asyncio.create_task(Leader(Stopping(), "work").run(Work().of(0)))
    done, _ = await asyncio.wait([leading], timeout=5)
    leading.cancel()
    assert done == {leading}


async def test_a_lease_that_was_given_back_is_free_at_once(ledger: Ledger) -> None:
    assert await ledger.leases.take("work", "a", 3_600) == 1
    assert await ledger.leases.take("work", "b", 3_600) is None
    assert await ledger.leases.take("other work", "b", 3_600) == 1
    assert await ledger.leases.take("work", "a", 3_600) == 1
    await ledger.leases.give_back("work", "b")
    assert await ledger.leases.take("work", "b", 3_600) is None
    await ledger.leases.give_back("work", "a")
    assert await ledger.leases.take("work", "b", 3_600) == 2


async def test_who_cannot_renew_stops_before_another_one_may_begin(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work()
    task = asyncio.create_task(Leader(ledger.leases, "work", lease_seconds=SECONDS).run(work.of(0)))
    await until(work.leader)

    async def away(self: Leases, name: str, holder: str, seconds: float) -> int | None:
        raise OSError

    monkeypatch.setattr(Leases, "take", away)

    async def stopped() -> bool | None:
        return not work.doing or None

    await until(stopped)
    assert await ledger.system.fetchval("SELECT ends_at > clock_timestamp() - interval '1 second' FROM leases")
    monkeypatch.undo()
    assert await until(work.leader) == 0, "it begins again when it can"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_work_that_ended_is_not_begun_again(ledger: Ledger) -> None:
    times = 0

    async def once() -> None:
        nonlocal times
        times += 1

    async with asyncio.timeout(20):
        await Leader(ledger.leases, "work").run(once)
    assert times == 1
    assert await ledger.leases.take("work", "another", 1) is not None, "it was given back"


async def test_the_ready_file_is_there_while_everything_answers(tmp_path: Path) -> None:
    file = tmp_path / "ready"
    answers: list[bool | Exception] = []

    async def check() -> bool:
        answer = answers[0] if answers else True
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def there() -> bool | None:
        return file.exists() or None

    async def gone() -> bool | None:
        return not file.exists() or None

    async with kept_ready(file, [check], every_seconds=0.01):
        assert file.exists()
        for failure in (False, OSError("away")):
            answers.append(failure)
            await until(gone)
            answers.clear()
            await until(there)
    assert not file.exists()
