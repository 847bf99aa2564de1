"""Sends what is queued: several at a time, each with a deadline, until there is nothing to send."""

import asyncio
import contextlib

import httpcore

from sandbox.state import State
from sandbox.webhooks import queue, signing
from sandbox.webhooks.queue import Delivery

AT_ONCE = 8
_DEADLINE_SECONDS = 10.0
_LONGEST_WAIT_SECONDS = 2.0
# Shorter than servers keep an idle connection, so that none is used while it is being closed.
_KEEPALIVE_SECONDS = 2.0
_FAILED = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, TimeoutError)


class Courier:
    """Delivers webhooks while `run` runs. Without it they are kept."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._news = asyncio.Event()
        self._progress = asyncio.Condition()
        self._under_way: set[int] = set()

    def wake(self) -> None:
        """Something was queued, held or released."""
        self._news.set()

    async def all_attempted(self, since: int) -> None:
        """Returns when every event after `since` was delivered or refused once, or when that takes too long."""

        def done() -> bool:
            return bool(queue.mode(self._state, "held")) or queue.all_attempted(self._state, since)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_WAIT_SECONDS), self._progress:
                await self._progress.wait_for(done)

    async def run(self) -> None:
        """Deliver until cancelled."""
        async with (
            httpcore.AsyncConnectionPool(keepalive_expiry=_KEEPALIVE_SECONDS) as pool,
            asyncio.TaskGroup() as group,
        ):
            while True:
                self._news.clear()
                next_due = self._start_due(pool, group)
                pause = None if next_due is None else max(next_due - self._state.now_us(), 0) / 1_000_000
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._news.wait()

    def _start_due(self, pool: httpcore.AsyncConnectionPool, group: asyncio.TaskGroup) -> int | None:
        """Starts what is due, as far as there is room; tells when the next one is due, if the time is all it needs."""
        for delivery, due_us in queue.ready(self._state, 2 * AT_ONCE):
            if delivery.seq in self._under_way:
                continue
            if len(self._under_way) >= AT_ONCE:
                return None
            if due_us > self._state.now_us():
                return due_us
            self._under_way.add(delivery.seq)
            group.create_task(self._deliver(pool, delivery))
        return None

    async def _deliver(self, pool: httpcore.AsyncConnectionPool, delivery: Delivery) -> None:
        status, error = await self._send(pool, delivery)
        queue.attempted(self._state, delivery, status, error)
        self._under_way.discard(delivery.seq)
        self.wake()
        async with self._progress:
            self._progress.notify_all()

    async def _send(self, pool: httpcore.AsyncConnectionPool, delivery: Delivery) -> tuple[int | None, str | None]:
        at = self._state.now_us() // 1_000_000
        headers, body = signing.signed(delivery.body, delivery.secret, at), delivery.body
        if delivery.forgery is not None:
            headers, body = signing.forged(delivery.body, delivery.secret, at, delivery.forgery)
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                response = await pool.request("POST", delivery.url, content=body, headers=[*headers.items()])
        except _FAILED as problem:
            return None, type(problem).__name__
        return response.status, None
