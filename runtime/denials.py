"""Recording what the egress guard refused, beside whatever was refused it."""

import asyncio

import structlog

from gateways.credentials import acting_now
from gateways.egress import Denial
from ledger.streams import Streams, denials_of
from schemas.events import EgressDenied

_log = structlog.get_logger()
# Of a storm of denials a process records as many a minute; each is in its call's diagnostics all the same.
_PER_MINUTE = 60


class Denials:
    """Told of denials as they happen, it appends them to the ledger by and by."""

    def __init__(self, streams: Streams, tenant: str) -> None:
        """`tenant` is whose operators find what belongs to nobody's call."""
        self._streams = streams
        self._tenant = tenant
        self._running: set[asyncio.Task[None]] = set()
        self._minute, self._count = 0, 0

    def __call__(self, denial: Denial) -> None:
        who = acting_now()
        loop = asyncio.get_running_loop()
        minute = int(loop.time() // 60)
        self._minute, self._count = minute, self._count + 1 if minute == self._minute else 1
        _log.warning("egress_denied", system=denial.system, because=denial.because, tool=who.tool if who else None)
        if self._count > _PER_MINUTE:
            return
        task = loop.create_task(self._record(who.tenant if who else self._tenant, denial))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def drain(self) -> None:
        """Wait for what is being recorded."""
        await asyncio.gather(*self._running)

    async def _record(self, tenant: str, denial: Denial) -> None:
        event = EgressDenied(system=denial.system, host=denial.host, because=denial.because)
        try:
            await self._streams.append(tenant, denials_of(tenant), event)
        except Exception as problem:  # noqa: BLE001 - the call has its own account of it
            _log.warning("egress_denial_not_recorded", error_type=type(problem).__name__)
