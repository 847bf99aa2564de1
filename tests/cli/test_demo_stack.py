"""A stack for the time of a piece of work: stopped after it, kept when wanted, and never cut off while it stops."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from runtime.demo import stack
from runtime.stack.connection import StackInfo
from runtime.stack.errors import StackError
from runtime.stack.files import DataFolder

INFO = cast("StackInfo", object())


class FakeStack:
    """Stands where `run_stack` does: announces itself, runs until it is stopped, and takes a while to stop."""

    def __init__(self, problem: str | None = None) -> None:
        self.problem = problem
        self.running = asyncio.Event()
        self.stop: asyncio.Event | None = None
        self.stopped_cleanly = False

    async def __call__(
        self, folder: object, compose: object, *, started: Callable[[StackInfo], None], stop: asyncio.Event, **_: Any
    ) -> None:
        self.stop = stop
        if self.problem is not None:
            raise StackError(self.problem)
        started(INFO)
        self.running.set()
        await stop.wait()
        await asyncio.sleep(0)
        self.stopped_cleanly = True


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeStack:
    made = FakeStack()
    monkeypatch.setattr(stack, "run_stack", made)
    return made


async def with_stack(work: Callable[[StackInfo], Any], *, stay: bool = False) -> Any:
    return await stack.with_stack(
        DataFolder(Path("/nowhere")), work, report=lambda line: None, stay=lambda result: stay
    )


async def test_it_ends_after_the_work(fake: FakeStack) -> None:
    async def work(info: StackInfo) -> str:
        assert info is INFO
        assert not fake.stopped_cleanly
        return "done"

    assert await with_stack(work) == "done"
    assert fake.stopped_cleanly


async def test_it_stays_until_it_is_stopped(fake: FakeStack) -> None:
    async def work(info: StackInfo) -> str:
        return "done"

    running = asyncio.create_task(with_stack(work, stay=True))
    await fake.running.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not running.done()
    assert fake.stop is not None
    fake.stop.set()
    assert await running == "done"
    assert fake.stopped_cleanly


async def test_a_stop_during_the_work_interrupts_it(fake: FakeStack) -> None:
    cancelled = asyncio.Event()

    async def work(info: StackInfo) -> str:
        assert fake.stop is not None
        fake.stop.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "done"

    assert await with_stack(work) is None
    assert cancelled.is_set()
    assert fake.stopped_cleanly


async def test_work_that_fails_stops_it_cleanly(fake: FakeStack) -> None:
    async def work(info: StackInfo) -> str:
        raise LookupError("nothing here")

    with pytest.raises(LookupError):
        await with_stack(work)
    assert fake.stopped_cleanly


async def test_a_stack_that_does_not_start_is_the_error(fake: FakeStack) -> None:
    async def work(info: StackInfo) -> str:
        pytest.fail("there is no stack to work on")

    fake.problem = "already runs"
    with pytest.raises(StackError, match="already runs"):
        await with_stack(work)
