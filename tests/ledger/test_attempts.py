"""Counts of refused requests: exact across processes, begun anew with each window, and no more rows than subjects."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ledger.attempts import Attempts, Window
from ledger.database import Database, connect

# So long that none ends while a test runs.
LONG = 604_800
WIDE = Window("run_1", LONG, 3)


@pytest.fixture
async def pools(database: str) -> AsyncIterator[list[Database]]:
    """Two processes' connections to the same database."""
    opened = [await connect(database), await connect(database)]
    yield opened
    for each in opened:
        await each.close()


async def rows(pools: list[Database]) -> list[tuple[str, int, int]]:
    found = await pools[0].system.fetch("SELECT subject, seconds, count FROM attempts ORDER BY 1, 2")
    return [(row["subject"], row["seconds"], row["count"]) for row in found]


async def begun_ago(pools: list[Database], seconds: int) -> None:
    """The windows of all rows began so much earlier."""
    await pools[0].system.execute("UPDATE attempts SET began_at = began_at - make_interval(secs => $1)", float(seconds))


async def test_attempts_are_counted_down_and_then_waited_for(pools: list[Database]) -> None:
    attempts = Attempts(pools[0])
    standings = [await attempts.count([WIDE]) for _ in range(5)]
    assert [each.remaining for each in standings] == [2, 1, 0, 0, 0]
    assert [each.retry_after_seconds is None for each in standings] == [True, True, True, False, False]
    assert 1 <= (standings[-1].retry_after_seconds or 0) <= LONG


async def test_the_narrowest_window_counts_and_the_longest_wait(pools: list[Database]) -> None:
    attempts = Attempts(pools[0])
    windows = [Window("run_1", 2 * LONG, 3), Window("run_1", LONG, 2), Window("address:1", LONG, 100)]
    assert (await attempts.count(windows)).remaining == 1
    assert (await attempts.count(windows)).remaining == 0
    over = await attempts.count(windows)
    assert over.retry_after_seconds is not None
    again = await attempts.count(windows)
    assert again.retry_after_seconds is not None
    ends = await pools[0].system.fetchval(
        "SELECT extract(epoch FROM began_at - now()) + seconds FROM attempts WHERE subject = 'run_1' AND seconds = $1",
        LONG,
    )
    assert abs(again.retry_after_seconds - float(ends)) <= 2


async def test_none_is_lost_between_processes_and_none_waits_for_ever(pools: list[Database]) -> None:
    """Windows given in any order, 200 at once over two pools: every one counted, and no deadlock."""
    one, other = Window("a", LONG, 1000), Window("b", LONG, 1000)
    orders = [[one, other], [other, one]]
    attempts = [Attempts(pool) for pool in pools]
    await asyncio.gather(*(attempts[n % 2].count(orders[n // 2 % 2]) for n in range(200)))
    assert await rows(pools) == [("a", LONG, 200), ("b", LONG, 200)]


async def test_a_new_window_begins_at_nothing_in_the_same_row(pools: list[Database]) -> None:
    attempts = Attempts(pools[0])
    for _ in range(4):
        await attempts.count([WIDE])
    await begun_ago(pools, LONG)
    standing = await attempts.count([WIDE])
    assert (standing.remaining, standing.retry_after_seconds) == (2, None)
    assert await rows(pools) == [("run_1", LONG, 1)]


async def test_a_late_clock_does_not_begin_a_window_again(pools: list[Database]) -> None:
    """A transaction that began just before the turn is counted in the window that has begun since."""
    attempts = Attempts(pools[0])
    await attempts.count([WIDE])
    await begun_ago(pools, -LONG)
    assert (await attempts.count([WIDE])).remaining == 1


async def test_what_has_passed_is_pruned_and_what_runs_is_not(pools: list[Database]) -> None:
    attempts = Attempts(pools[0])
    await attempts.count([Window("old", 60, 1), Window("old", LONG, 1)])
    await begun_ago(pools, 120)
    await attempts.count([Window("new", LONG, 1)])
    await attempts.prune()
    assert {(subject, seconds) for subject, seconds, _ in await rows(pools)} == {("old", LONG), ("new", LONG)}


async def test_counting_prunes_by_itself(pools: list[Database], monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = Attempts(pools[0])
    await attempts.count([Window("old", 60, 1)])
    await begun_ago(pools, 120)
    await attempts.count([Window("new", LONG, 1)])
    assert len(await rows(pools)) == 2
    monkeypatch.setattr("ledger.attempts._PRUNE_SECONDS", 0)
    await attempts.count([Window("new", LONG, 1)])
    assert [subject for subject, _, _ in await rows(pools)] == ["new"]


async def test_attempts_of_one_moment_stand_one_after_the_other(pools: list[Database]) -> None:
    """They are counted by few statements: each is told as if it had been counted alone."""
    attempts, other = Attempts(pools[0]), Window("run_2", LONG, 100)
    standings = await asyncio.gather(*(attempts.count([WIDE, other]) for _ in range(6)))
    assert [each.remaining for each in standings] == [2, 1, 0, 0, 0, 0]
    assert [each.retry_after_seconds is None for each in standings] == [True] * 3 + [False] * 3
    assert await rows(pools) == [("run_1", LONG, 6), ("run_2", LONG, 6)]
