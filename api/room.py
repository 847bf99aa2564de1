"""Backpressure: how many calls this process works on at once, and how many of them are one tenant's."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass


class NoRoomError(Exception):
    """There was none in time, or too many wait for it already."""


@dataclass(eq=False, slots=True)
class _Share:
    """What a tenant has of the room. `calls`: how many of its calls are here, at work or waiting."""

    free: asyncio.Semaphore
    places: int
    calls: int = 0


class Room:
    """Room for so many calls of a tenant, and a quarter more, one at least, that it leaves to the others. One call more
    waits a little for another to rest; more than `waiting` of those are turned away at once, of all tenants together a
    quarter more, so that neither memory nor the wait grows with what is asked."""

    def __init__(self, calls: int = 32, *, waiting: int | None = None, seconds: float = 2.0) -> None:
        self._calls = calls
        self._waiting = 4 * calls if waiting is None else waiting
        self._free = asyncio.Semaphore(_with_others(calls))
        self._places = _with_others(self._waiting)
        self._seconds = seconds
        self._shares: dict[str, _Share] = {}

    def is_full(self, tenant: str) -> bool:
        """Whether a call of this tenant would have to wait."""
        share = self._shares.get(tenant)
        return self._free.locked() or (share is not None and share.free.locked())

    @asynccontextmanager
    async def taken(self, tenant: str) -> AsyncGenerator[None]:
        """Room for one call of the tenant while the block runs. Raises NoRoomError before it."""
        share = self._shares.get(tenant)
        if share is None:
            share = self._shares[tenant] = _Share(asyncio.Semaphore(self._calls), self._waiting)
        share.calls += 1
        try:
            await self._enter(tenant, share)
            try:
                yield
            finally:
                self._free.release()
                share.free.release()
        finally:
            share.calls -= 1
            if share.calls == 0:
                del self._shares[tenant]

    async def _enter(self, tenant: str, share: _Share) -> None:
        if not self.is_full(tenant):
            # Free, so that neither waits.
            await share.free.acquire()
            await self._free.acquire()
            return
        if share.places == 0 or self._places == 0:
            raise NoRoomError
        share.places -= 1
        self._places -= 1
        try:
            async with asyncio.timeout(self._seconds):
                # Its own share first: whoever waits for that stands in nobody's way.
                await share.free.acquire()
                try:
                    await self._free.acquire()
                except BaseException:
                    share.free.release()
                    raise
        except TimeoutError:
            raise NoRoomError from None
        finally:
            share.places += 1
            self._places += 1


def _with_others(of_one: int) -> int:
    return of_one + max(1, of_one // 4)
