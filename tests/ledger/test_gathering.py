"""Questions of the same moment share a statement, and none is answered by one that began before it was asked."""

import asyncio
from collections.abc import Sequence

import pytest

from ledger.gathering import Gathered


class Statements:
    """What was asked, a list for each statement; each is answered once it is let go."""

    def __init__(self) -> None:
        self.begun: list[list[str]] = []
        self.go = asyncio.Semaphore(0)
        self.problem: BaseException | None = None

    async def answer(self, questions: Sequence[str]) -> list[str]:
        self.begun.append(list(questions))
        await self.go.acquire()
        if self.problem is not None:
            raise self.problem
        return [f"{each} by {len(self.begun)}" for each in questions]

    async def began(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.begun) < count:
                await asyncio.sleep(0)


async def test_what_is_asked_while_a_statement_is_under_way_is_answered_by_the_next() -> None:
    statements = Statements()
    gathered = Gathered(statements.answer)
    first = asyncio.create_task(gathered.ask("a"))
    await statements.began(1)
    later = [asyncio.create_task(gathered.ask(each)) for each in ("a", "b", "a")]
    await asyncio.sleep(0)
    statements.go.release()
    assert await first == "a by 1"
    await statements.began(2)
    statements.go.release()
    assert await asyncio.gather(*later) == ["a by 2", "b by 2", "a by 2"]
    assert statements.begun == [["a"], ["a", "b", "a"]]


async def test_a_failure_is_told_to_all_who_asked_and_to_nobody_later() -> None:
    statements = Statements()
    gathered = Gathered(statements.answer)
    statements.problem = OSError("away")
    asked = [asyncio.create_task(gathered.ask(each)) for each in "ab"]
    statements.go.release()
    told = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in told] == [OSError, OSError]
    statements.problem = None
    statements.go.release()
    assert await gathered.ask("c") == "c by 2"


async def test_whoever_stops_waiting_takes_nothing_from_the_others() -> None:
    statements = Statements()
    gathered = Gathered(statements.answer)
    stays, leaves = (asyncio.create_task(gathered.ask(each)) for each in "ab")
    await statements.began(1)
    leaves.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaves
    statements.go.release()
    assert await stays == "a by 1"


async def test_nobody_waits_for_a_statement_that_was_stopped() -> None:
    """Nor for the one after it, which nobody begins; who asks later is answered."""
    statements = Statements()
    gathered = Gathered(statements.answer)
    statements.problem = asyncio.CancelledError()
    asked = [asyncio.create_task(gathered.ask("a"))]
    await statements.began(1)
    asked.append(asyncio.create_task(gathered.ask("b")))
    await asyncio.sleep(0)
    statements.go.release()
    async with asyncio.timeout(10):
        told = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in told] == [asyncio.CancelledError, asyncio.CancelledError]
    statements.problem = None
    statements.go.release()
    assert await gathered.ask("c") == "c by 2"


async def test_answers_of_another_number_are_nobodys() -> None:
    """Whose they are nobody can say."""

    async def answer(questions: Sequence[str]) -> list[str]:
        return ["one"]

    gathered = Gathered(answer)
    async with asyncio.timeout(10):
        told = await asyncio.gather(*(gathered.ask(each) for each in "ab"), return_exceptions=True)
    assert [type(each) for each in told] == [ValueError, ValueError]
