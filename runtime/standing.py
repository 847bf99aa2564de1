"""Gauges of what has to be asked for: how the ledger stands, who polls Temporal's queues, and whether both answer.

They are looked at in the background and never while a call or a scrape waits. What could not be looked at for a while
is not told any more, rather than told as it was.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import structlog
from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from ledger.database import Pool
from ledger.standing import Standing, look
from schemas.tools import WORKER_QUEUES, WorkerQueue, queue_name

EVERY_SECONDS = 10.0
_GOOD_FOR = 6 * EVERY_SECONDS
_ANSWERS_WITHIN = 5.0

T = TypeVar("T")
Pollers = dict[WorkerQueue, int]
_log = structlog.get_logger()


class Told(NamedTuple):
    """One value of a gauge, under bounded labels."""

    value: float
    labels: dict[str, str]


@dataclass(frozen=True, slots=True)
class Gauge(Generic[T]):
    """A gauge, and what it tells of what was found."""

    name: str
    unit: str
    description: str
    tells: Callable[[T], Iterable[Told]]


def _one(read: Callable[[Standing], float]) -> Callable[[Standing], Iterable[Told]]:
    return lambda found: [Told(read(found), {})]


def _approvals(name: str) -> Callable[[Standing], Iterable[Told]]:
    return lambda found: (Told(getattr(each, name), {"tool": each.tool}) for each in found.approvals)


def _calls(name: str) -> Callable[[Standing], Iterable[Told]]:
    return lambda found: (Told(getattr(each, name), {"tool": each.tool, "status": each.status}) for each in found.calls)


def _unknown(name: str) -> Callable[[Standing], Iterable[Told]]:
    return lambda found: (
        Told(getattr(each, name), {"tool": each.tool}) for each in found.calls if each.status == "outcome_unknown"
    )


def _switches(found: Standing) -> Iterator[Told]:
    for each in found.switches:
        yield Told(each.off, {"kind": each.kind, "by": "breaker" if each.tripped else "operator"})


def _alerts(found: Standing) -> Iterator[Told]:
    return (Told(count, {"kind": kind}) for kind, count in found.alerts.items())


OF_THE_LEDGER: tuple[Gauge[Standing], ...] = (
    Gauge("counterseal.approvals.waiting", "", "Approvals that wait for a person", _approvals("waiting")),
    Gauge("counterseal.approvals.oldest", "s", "How long the oldest approval has waited", _approvals("oldest")),
    Gauge("counterseal.approvals.due", "s", "How long it is to the next deadline", _approvals("due")),
    Gauge("counterseal.calls.open", "", "Calls that are not settled and wait for nobody", _calls("open")),
    Gauge("counterseal.calls.unmoved", "s", "How long nothing happened to one of them", _calls("unmoved")),
    Gauge("counterseal.unknown.oldest", "s", "How long ago the oldest unknown effect was sent", _unknown("oldest")),
    Gauge("counterseal.unknown.inspection_age", "s", "How long ago one was last looked at", _unknown("unmoved")),
    Gauge("counterseal.reviews.open", "", "Unknown outcomes that a person has to settle", _unknown("reviews")),
    Gauge("counterseal.switches.off", "", "Switches that are off, by kind and by whom", _switches),
    Gauge("counterseal.alerts.open", "", "Alerts that operators have not seen to", _alerts),
    Gauge(
        "counterseal.notices.undelivered",
        "",
        "Notices that were given up in the last day",
        _one(lambda found: found.notices_undelivered),
    ),
    Gauge(
        "counterseal.notices.overdue",
        "s",
        "How late the notice is that should have gone first",
        _one(lambda found: found.notices_overdue),
    ),
    Gauge(
        "counterseal.seal.lag", "s", "How long the oldest event has not been sealed", _one(lambda found: found.seal_lag)
    ),
    Gauge(
        "counterseal.projection.lag",
        "s",
        "How long a call's row has not known of its newest event",
        _one(lambda found: found.projection_lag),
    ),
)
OF_TEMPORAL: tuple[Gauge[Pollers], ...] = (
    Gauge(
        "counterseal.pollers",
        "",
        "How many workers poll a queue",
        lambda found: (Told(count, {"queue": queue}) for queue, count in found.items()),
    ),
)


class Gauges:
    """Looks again and again (`run`); its gauges tell what was found last. `pool` sees every tenant's rows."""

    def __init__(
        self, pool: Pool, temporal: Client, task_queue: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pool = pool
        self._temporal = temporal
        self._queues: dict[WorkerQueue, str] = {queue: queue_name(task_queue, queue) for queue in WORKER_QUEUES}
        self._clock = clock
        self._looked_at = -_GOOD_FOR
        self._standing: Standing | None = None
        self._pollers: Pollers | None = None

    def observe(self) -> None:
        """Make the gauges, once a process."""
        meter = metrics.get_meter("counterseal.standing")
        meter.create_observable_gauge(
            "counterseal.up", [self._up], description="Whether the process reaches what it depends on: 1 or 0"
        )
        for each in OF_THE_LEDGER:
            told = [self._telling(each, lambda: self._standing)]
            meter.create_observable_gauge(each.name, told, unit=each.unit, description=each.description)
        for each in OF_TEMPORAL:
            told = [self._telling(each, lambda: self._pollers)]
            meter.create_observable_gauge(each.name, told, unit=each.unit, description=each.description)

    async def run(self, *, every_seconds: float = EVERY_SECONDS) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(every_seconds)

    async def look(self) -> None:
        """Look once. What does not answer is told to be down, and nothing is told of what it would have said."""
        self._standing = await _answer(look(self._pool), "database")
        self._pollers = await _answer(self._polling(), "temporal")
        self._looked_at = self._clock()

    async def _polling(self) -> Pollers:
        return {queue: await self._pollers_of(queue, name) for queue, name in self._queues.items()}

    async def _pollers_of(self, queue: WorkerQueue, name: str) -> int:
        kinds = TaskQueueType
        kind = kinds.TASK_QUEUE_TYPE_WORKFLOW if queue == "workflows" else kinds.TASK_QUEUE_TYPE_ACTIVITY
        request = DescribeTaskQueueRequest(
            namespace=self._temporal.namespace, task_queue=TaskQueue(name=name), task_queue_type=kind
        )
        return len((await self._temporal.workflow_service.describe_task_queue(request)).pollers)

    @property
    def _is_recent(self) -> bool:
        return self._clock() - self._looked_at < _GOOD_FOR

    def _up(self, options: CallbackOptions) -> Iterable[Observation]:
        if self._is_recent:
            yield Observation(int(self._standing is not None), {"dependency": "database"})
            yield Observation(int(self._pollers is not None), {"dependency": "temporal"})

    def _telling(
        self, gauge: Gauge[T], found: Callable[[], T | None]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observed(options: CallbackOptions) -> Iterable[Observation]:
            now = found() if self._is_recent else None
            return [] if now is None else [Observation(*each) for each in gauge.tells(now)]

        return observed


async def _answer(asked: Awaitable[T], dependency: str) -> T | None:
    try:
        async with asyncio.timeout(_ANSWERS_WITHIN):
            return await asked
    except Exception as problem:  # noqa: BLE001 - whatever it is, that is what the gauges are to tell
        _log.warning("gauges_not_read", dependency=dependency, error_type=type(problem).__name__)
        return None
