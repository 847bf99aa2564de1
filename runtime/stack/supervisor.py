"""Starts services in the order of their needs, keeps them alive, stops them in reverse."""

import asyncio
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runtime.stack.child import Child, Command
from runtime.stack.errors import StackError

DEATHS_ALLOWED = 5
DEATHS_WINDOW_SECONDS = 30.0
START_SECONDS = 120.0
_LONGEST_PAUSE_SECONDS = 5.0


async def _nothing() -> None:
    return


async def _until(event: asyncio.Event) -> None:
    await event.wait()


@dataclass(frozen=True)
class Service:
    """A child process and what it takes to call it started.

    command: its command line, asked for at each start. ready: whether it answers. prepare: before each start.
    setup: once, after it first answered. needs: names of the services that must be started (set up) before it.
    """

    name: str
    command: Callable[[], Command]
    ready: Callable[[], Awaitable[bool]]
    prepare: Callable[[], Awaitable[None]] = _nothing
    setup: Callable[[], Awaitable[None]] = _nothing
    needs: tuple[str, ...] = ()


@dataclass
class _Watched:
    service: Service
    started: asyncio.Event = field(default_factory=asyncio.Event)
    deaths: deque[float] = field(default_factory=lambda: deque[float](maxlen=DEATHS_ALLOWED))
    child: Child | None = None


class Supervisor:
    """Runs `services`; their logs go to the folder `logs`, their pid files to `run`.

    `report` gets one-line notices for the terminal. `changed` is called with the pids once everything has started, and
    again whenever a child was replaced.
    """

    def __init__(
        self,
        services: Sequence[Service],
        *,
        logs: Path,
        run: Path,
        report: Callable[[str], None],
        changed: Callable[[dict[str, int]], None],
    ) -> None:
        self._watched = {service.name: _Watched(service) for service in services}
        self._logs = logs
        self._run = run
        self._report = report
        self._changed = changed
        self._hurry = False

    @property
    def pids(self) -> dict[str, int]:
        """The children that run now, by name."""
        children = {name: watched.child for name, watched in self._watched.items()}
        return {name: child.pid for name, child in children.items() if child is not None and child.pid is not None}

    async def run(self, stop: asyncio.Event) -> None:
        """Start everything and keep it running until `stop` is set; then stop everything.

        Raises StackError when a service does not start or dies again and again; nothing is left running then either.
        """
        keepers = [asyncio.create_task(self._keep(watched)) for watched in self._watched.values()]
        stopping = asyncio.create_task(_until(stop))
        try:
            done, _ = await asyncio.wait([*keepers, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*keepers, stopping):
                task.cancel()
            await asyncio.gather(*keepers, stopping, return_exceptions=True)
            await self._stop_all()
        for task in done:
            task.result()  # raises what ended a keeper

    def hurry(self) -> None:
        """Kill what still runs: the person at the terminal does not want to wait for a clean stop."""
        self._hurry = True
        for watched in self._watched.values():
            if watched.child is not None:
                watched.child.kill()

    async def _keep(self, watched: _Watched) -> None:
        service = watched.service
        for need in service.needs:
            await self._watched[need].started.wait()
        while True:
            await service.prepare()
            child = watched.child = Child(service.name, service.command(), logs=self._logs, run=self._run)
            await child.start()
            if await self._answers(watched, child):
                await self._mark_started(watched)
            status = await child.wait()
            await asyncio.sleep(self._pause_after_death(watched, child, status))

    async def _answers(self, watched: _Watched, child: Child) -> bool:
        """Wait until the child is ready (True) or has ended (False)."""
        try:
            async with asyncio.timeout(START_SECONDS):
                while child.pid is not None:
                    if await watched.service.ready():
                        return True
                    await asyncio.sleep(0.05)
                return False
        except TimeoutError:
            raise StackError(f"{child.name} did not answer within {START_SECONDS:.0f} s, see {child.log}") from None

    async def _mark_started(self, watched: _Watched) -> None:
        first = not watched.started.is_set()
        if first:
            await watched.service.setup()
            watched.started.set()
            self._report(f"{watched.service.name} is ready")
        if all(other.started.is_set() for other in self._watched.values()):
            self._changed(self.pids)
        if not first:
            self._report(f"{watched.service.name} is back")

    def _pause_after_death(self, watched: _Watched, child: Child, status: int) -> float:
        """Seconds to wait before the next start: more with every recent death."""
        now = time.monotonic()
        watched.deaths.append(now)
        recent = [death for death in watched.deaths if now - death < DEATHS_WINDOW_SECONDS]
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        if len(recent) >= DEATHS_ALLOWED:
            raise StackError(
                f"{child.name} {how}, {DEATHS_ALLOWED} times within {DEATHS_WINDOW_SECONDS:.0f} s, see {child.log}"
            )
        self._report(f"{child.name} {how}, starting it again (log: {child.log})")
        return min(0.1 * 2 ** (len(recent) - 1), _LONGEST_PAUSE_SECONDS)

    async def _stop_all(self) -> None:
        """Stop those that no running service needs, then what they needed, and so on."""
        left = dict(self._watched)
        while left:
            needed = {need for watched in left.values() for need in watched.service.needs}
            leaves = [name for name in left if name not in needed]
            children = [child for name in leaves if (child := left[name].child) is not None]
            if self._hurry:
                for child in children:
                    child.kill()
            await asyncio.gather(*(child.stop() for child in children))
            left = {name: watched for name, watched in left.items() if name not in leaves}
