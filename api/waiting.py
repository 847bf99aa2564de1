"""Waiting for calls to settle or park. A call that this process moves on is handed over as it was committed; for those
that another one moves there is one look at the database for all who wait."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass

from ledger.calls import Calls
from ledger.records import SETTLED, CallRecord
from schemas.codes import Status

_PARKED: frozenset[Status] = frozenset({"pending_approval"})
RESTING = SETTLED | _PARKED
# A look for who has waited for long comes later, by so much of that; at most by so many of the shortest pauses.
_PATIENCE = 0.25
_MOST_PAUSES = 10


@dataclass(eq=False, slots=True)
class _Waiter:
    future: asyncio.Future[CallRecord | None]
    until: frozenset[Status]
    since: float
    due: float
    """When the database is to be asked."""


class Waiters:
    """Wakes whoever waits for a call."""

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
                _wake(waiter, None)

    def moved(self, record: CallRecord) -> None:
        """This process just committed that the call stands so."""
        for waiter in self._waiting.get(record.workflow_id, ()):
            if record.status in waiter.until:
                _wake(waiter, record)

    async def wait(
        self, workflow_id: str, seconds: float, until: frozenset[Status] = RESTING, *, just_begun: bool = False
    ) -> CallRecord | None:
        """Return when the call has one of the statuses `until`, or after `seconds`, whichever comes first; with the
        call itself where this process moved it. `just_begun`: it cannot have come to anything yet."""
        if self._stopping:
            return None
        now = asyncio.get_running_loop().time()
        due = now + self._poll_seconds if just_begun else now
        waiter = _Waiter(asyncio.get_running_loop().create_future(), until, now, due)
        self._waiting[workflow_id].add(waiter)
        if not just_begun:
            self._look.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            async with asyncio.timeout(seconds):
                return await waiter.future
        except TimeoutError:
            return None
        finally:
            self._waiting[workflow_id].discard(waiter)
            if not self._waiting[workflow_id]:
                del self._waiting[workflow_id]

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            self._look.clear()
            try:
                await self._look_for_those_due(loop.time())
            except Exception as problem:  # noqa: BLE001 - it is handed to everyone who waits
                self._fail(problem)
                return
            # Two looks in a row never come closer than a millisecond, so that many who come make one query.
            await asyncio.sleep(0.001)
            try:
                async with asyncio.timeout(self._poll_seconds):
                    await self._look.wait()
            except TimeoutError:
                pass

    async def _look_for_those_due(self, now: float) -> None:
        due = {name: ripe for name, each in self._waiting.items() if (ripe := [one for one in each if one.due <= now])}
        if not due:
            return
        states = await self._calls.statuses(list(due))
        for workflow_id, waiters in due.items():
            for waiter in waiters:
                if states.get(workflow_id) in waiter.until:
                    _wake(waiter, None)
                pause = max(self._poll_seconds, _PATIENCE * (now - waiter.since))
                waiter.due = now + min(pause, _MOST_PAUSES * self._poll_seconds)

    def _fail(self, problem: Exception) -> None:
        """The database does not answer: everyone who waits is told, none hangs."""
        for waiters in self._waiting.values():
            for waiter in waiters:
                if not waiter.future.done():
                    waiter.future.set_exception(problem)


def _wake(waiter: _Waiter, record: CallRecord | None) -> None:
    if not waiter.future.done():
        waiter.future.set_result(record)
