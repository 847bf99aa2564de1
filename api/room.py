"""Backpressure: how many calls this process works on at once."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class NoRoomError(Exception):
    """There was none in time, or too many wait for it already."""


class Room:
    """Room for so many calls. One more waits a little for another to rest; more than `waiting` of those are turned away
    at once, so that neither memory nor the wait grows with what is asked."""

    def __init__(self, calls: int = 32, *, waiting: int | None = None, seconds: float = 2.0) -> None:
        self._free = asyncio.Semaphore(calls)
        self._places = 4 * calls if waiting is None else waiting
        self._seconds = seconds

    @property
    def is_full(self) -> bool:
        return self._free.locked()

    @asynccontextmanager
    async def taken(self) -> AsyncGenerator[None]:
        """Room for one call while the block runs. Raises NoRoomError before it."""
        if self.is_full:
            await self._wait()
        else:
            # Free, so that this does not wait.
            await self._free.acquire()
        try:
            yield
        finally:
            self._free.release()

    async def _wait(self) -> None:
        if self._places == 0:
            raise NoRoomError
        self._places -= 1
        try:
            async with asyncio.timeout(self._seconds):
                await self._free.acquire()
        except TimeoutError:
            raise NoRoomError from None
        finally:
            self._places += 1
