"""Waiting for calls to settle or park: one batched look at committed state per process, however many wait."""

import asyncio
from collections import defaultdict
from typing import NamedTuple

from ledger.calls import Calls
from ledger.records import SETTLED
from schemas.codes import Status

_PARKED: frozenset[Status] = frozenset({"pending_approval"})
RESTING = SETTLED | _PARKED


class _Waiter(NamedTuple):
    future: asyncio.Future[None]
    until: frozenset[Status]


class Waiters:
    """Wakes whoever waits for a call. A hint from the same process makes the look immediate; polling finds the rest."""

    def __init__(self, calls: Calls, *, poll_seconds: float = 0.02) -> None:
        self._calls = calls
        self._poll_seconds = poll_seconds
        self._waiting: defaultdict[str, set[_Waiter]] = defaultdict(set)
        self._look = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def stop(self, within_seconds: float) -> None:
        """The process ends: whoever then still waits is answered with the state there is, and nobody waits any more."""
        asyncio.get_running_loop().call_later(within_seconds, self._release)

    def _release(self) -> None:
        self._stopping = True
        for waiters in self._waiting.values():
            for waiter in waiters:
                if not waiter.future.done():
                    waiter.future.set_result(None)

    def hint(self, workflow_id: str) -> None:
        """This process just committed a change of that call."""
        if workflow_id in self._waiting:
            self._look.set()

    async def wait(self, workflow_id: str, seconds: float, until: frozenset[Status] = RESTING) -> None:
        """Return when the call has one of the statuses `until`, or after `seconds`, whichever comes first."""
        if self._stopping:
            return
        waiter = _Waiter(asyncio.get_running_loop().create_future(), until)
        self._waiting[workflow_id].add(waiter)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            async with asyncio.timeout(seconds):
                await waiter.future
        except TimeoutError:
            pass
        finally:
            self._waiting[workflow_id].discard(waiter)
            if not self._waiting[workflow_id]:
                del self._waiting[workflow_id]

    async def _run(self) -> None:
        while self._waiting:
            try:
                states = await self._calls.statuses(list(self._waiting))
            except Exception as problem:  # noqa: BLE001 - it is handed to everyone who waits
                self._fail(problem)
                return
            for workflow_id, status in states.items():
                for waiter in self._waiting.get(workflow_id, ()):
                    if status in waiter.until and not waiter.future.done():
                        waiter.future.set_result(None)
            # Two looks in a row never come closer than a millisecond, so that many hints make one query.
            await asyncio.sleep(0.001)
            try:
                async with asyncio.timeout(self._poll_seconds):
                    await self._look.wait()
            except TimeoutError:
                pass
            self._look.clear()

    def _fail(self, problem: Exception) -> None:
        """The database does not answer: everyone who waits is told, none hangs."""
        for waiters in self._waiting.values():
            for waiter in waiters:
                if not waiter.future.done():
                    waiter.future.set_exception(problem)
