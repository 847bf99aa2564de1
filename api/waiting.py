"""Waiting for calls to settle or park: one batched look at committed state per process, however many wait."""

import asyncio
from collections import defaultdict

from ledger.calls import Calls


class Waiters:
    """Wakes whoever waits for a call. A hint from the same process makes the look immediate; polling finds the rest."""

    def __init__(self, calls: Calls, *, poll_seconds: float = 0.02) -> None:
        self._calls = calls
        self._poll_seconds = poll_seconds
        self._waiting: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._look = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def hint(self, workflow_id: str) -> None:
        """This process just committed a change of that call."""
        if workflow_id in self._waiting:
            self._look.set()

    async def wait(self, workflow_id: str, seconds: float) -> None:
        """Return when the call has settled or parked, or after `seconds`, whichever comes first."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[workflow_id].add(future)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            pass
        finally:
            self._waiting[workflow_id].discard(future)
            if not self._waiting[workflow_id]:
                del self._waiting[workflow_id]

    async def _run(self) -> None:
        while self._waiting:
            for workflow_id in await self._calls.settled_or_parked(list(self._waiting)):
                for future in self._waiting.get(workflow_id, ()):
                    if not future.done():
                        future.set_result(None)
            # Two looks in a row never come closer than a millisecond, so that many hints make one query.
            await asyncio.sleep(0.001)
            try:
                async with asyncio.timeout(self._poll_seconds):
                    await self._look.wait()
            except TimeoutError:
                pass
            self._look.clear()
