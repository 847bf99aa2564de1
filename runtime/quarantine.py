"""Quarantine of tools whose upstream advertises something else than was reviewed: the tool's own kill switch is turned
off, for everybody, until a person turns it on again."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress

import structlog

from gateways.credentials import Acting, acting
from gateways.http import NotAnswered
from gateways.protocols import Systems
from gateways.upstreams import Changed
from ledger.switches import Switches
from schemas.switches import EVERYONE
from tools.catalog import Catalog, Entry

_log = structlog.get_logger()
BY = "counterseal"


class Quarantine:
    """Told of changes as calls find them, and looking for them itself."""

    def __init__(self, switches: Switches, catalog: Catalog, tenant: str) -> None:
        """`tenant` is whose credentials it looks with."""
        self._switches, self._catalog, self._tenant = switches, catalog, tenant
        self._running: dict[str, asyncio.Task[None]] = {}

    def __call__(self, change: Changed) -> None:
        for entry in self._catalog.all():
            name = entry.manifest.name
            if entry.upstream == change.upstream and change.tool in entry.pins and name not in self._running:
                task = asyncio.get_running_loop().create_task(self._turn_off(name, change))
                self._running[name] = task
                task.add_done_callback(lambda _, name=name: self._running.pop(name, None))

    @asynccontextmanager
    async def watching(self, systems: Systems, every_seconds: float) -> AsyncGenerator[None]:
        """Looks at once and then every so often, as long as the context lasts; then the upstreams are closed."""
        watched = [entry for entry in self._catalog.all() if entry.upstream in systems.upstreams]
        task = asyncio.create_task(self._watch(watched, systems, every_seconds)) if watched else None
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await asyncio.gather(*self._running.values())
            await asyncio.gather(*(each.close() for each in systems.upstreams.values()))

    async def _watch(self, watched: Iterable[Entry], systems: Systems, every_seconds: float) -> None:
        while True:
            for entry in watched:
                try:
                    await self._look(entry, systems, every_seconds)
                except Exception as problem:  # noqa: BLE001 - it must outlive whatever is away just now
                    _log.warning("upstream_check_failed", tool=entry.manifest.name, error_type=type(problem).__name__)
            await asyncio.sleep(every_seconds)

    async def _look(self, entry: Entry, systems: Systems, every_seconds: float) -> None:
        name, upstream = entry.manifest.name, systems.upstream(entry.upstream or "")
        with acting(Acting(self._tenant, name)):
            # Tools with one credential share a list: it is asked for once in a round.
            found = await upstream.changes(entry.pins, every_seconds / 2)
        if isinstance(found, NotAnswered):
            # No change is known of. A call looks again, and is not made while there is no answer.
            _log.warning("upstream_unavailable", upstream=upstream.system, tool=name, problem=found.exchange.problem)

    async def _turn_off(self, name: str, change: Changed) -> None:
        switch = f"tool:{name}"
        try:
            off = await self._switches.off(None)
            if any((each.tenant, each.name) == (EVERYONE, switch) for each in off):
                return
            how = "is not what was reviewed" if change.change == "changed" else "is not there any more"
            reason = f"{change.tool} of the MCP server {change.upstream} {how}"
            await self._switches.turn_off(EVERYONE, switch, by=BY, reason=reason)
            _log.warning("tool_quarantined", tool=name, upstream=change.upstream, change=change.change)
        except Exception as problem:  # noqa: BLE001 - a call is refused all the same, and it is tried again
            _log.warning("quarantine_failed", tool=name, error_type=type(problem).__name__)
