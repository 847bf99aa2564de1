"""Work that one process at a time does, whichever of them holds the lease."""

import asyncio
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from ledger.leases import Leases

_log = structlog.get_logger()


class Leader:
    """A lease of one kind of work. What is done under it has to be safe to repeat all the same: a process that stood
    still goes on for a moment when another one has begun."""

    def __init__(self, leases: Leases, name: str, *, lease_seconds: float = 15.0) -> None:
        self._leases = leases
        self._name = name
        self._seconds = lease_seconds
        self._holder = f"{socket.gethostname()}/{secrets.token_hex(8)}"

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Until cancelled: wait for the lease, and do `work` while this process has it. Work that is cancelled begins
        anew when the lease is back. Returns when `work` does. A database that is away is waited for."""
        try:
            while True:
                began = time.monotonic()
                if (term := await self._take()) is None:
                    await asyncio.sleep(self._seconds / 3)
                    continue
                _log.info("leading", work=self._name, term=term)
                if await self._lead(work, began + self._seconds):
                    return
                _log.warning("lease_lost", work=self._name, term=term)
        finally:
            with suppress(Exception):  # it runs out by itself
                await asyncio.wait_for(self._leases.give_back(self._name, self._holder), 2)

    async def _lead(self, work: Callable[[], Awaitable[None]], until: float) -> bool:
        """Whether the work came to its end."""
        doing = asyncio.ensure_future(work())
        try:
            while True:
                # A lease that cannot be renewed is given up before it is anyone else's.
                await asyncio.wait([doing], timeout=min(self._seconds / 3, max(0.0, until - time.monotonic())))
                if doing.done():
                    doing.result()
                    return True
                began = time.monotonic()
                if began >= until:
                    return False
                if await self._take(until - began) is not None:
                    until = began + self._seconds
        finally:
            doing.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await doing

    async def _take(self, within: float = 10.0) -> int | None:
        try:
            # Not `wait_for`: before Python 3.12 it forgets that it was cancelled at the moment when it has its result.
            async with asyncio.timeout(within):
                return await self._leases.take(self._name, self._holder, self._seconds)
        except Exception as problem:  # noqa: BLE001 - it must outlive whatever is away just now
            _log.warning("lease_not_taken", work=self._name, error_type=type(problem).__name__)
            return None
