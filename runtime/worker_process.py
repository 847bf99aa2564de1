"""The worker process: the queues it was asked to serve, the healer beside the workflows, and the sealer."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal

import structlog
import uvloop

from ledger.ledger import Ledger
from ledger.proving import Proofs
from runtime.assembly import Core, activity_services, checkpoint_file, core_over, guarded_ledger, say_policy
from runtime.denials import Denials
from runtime.healing import Healer
from runtime.leading import Leader
from runtime.logs import start_logging
from runtime.measuring import Metrics, measuring, start_metrics
from runtime.notices import Courier, notices_file
from runtime.readiness import Check, kept_ready
from runtime.sealing import Sealing
from runtime.settings import Settings
from runtime.telemetry import start_tracing
from runtime.witnesses import open_witnesses
from runtime.workers import effect_worker, workflow_worker
from schemas.tools import EFFECT_QUEUES, WorkerQueue

# What a worker can be asked to do: serve queues of Temporal, and seal, which needs no Temporal.
Served = WorkerQueue | Literal["sealer"]
QUEUES: tuple[Served, ...] = ("workflows", *EFFECT_QUEUES, "sealer")
_log = structlog.get_logger()


def run_worker(settings: Settings, queues: Sequence[Served] = QUEUES) -> None:
    """Serve `queues` until SIGINT or SIGTERM; what was begun is finished first."""
    start_logging(settings.log_level)
    stop_tracing, measured = start_tracing("worker", settings.traces_file), start_metrics("worker", settings)
    try:
        uvloop.run(_serve(settings, queues, measured))
    finally:
        measured.stop()
        stop_tracing()


async def _serve(settings: Settings, queues: Sequence[Served], measured: Metrics) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        master, ledger = await stack.enter_async_context(guarded_ledger(settings))
        checks: list[Check] = [ledger.ready]
        serving: list[WorkerQueue] = [queue for queue in queues if queue != "sealer"]
        if serving:
            built = await core_over(settings, master, ledger)
            checks.append(built.temporal.service_client.check_health)
            told_of = built if "workflows" in serving else None
            await stack.enter_async_context(measuring(measured, told_of))
            await _work(stack, built, serving)
        if "sealer" in queues:
            sealing = await stack.enter_async_context(_sealing(settings, ledger))
            await stack.enter_async_context(_tending(ledger, {"sealing": lambda: sealing.run(stopping.set)}))
        _log.info(
            "worker_ready", queues=list(queues), task_queue=settings.task_queue, build_id=settings.build_id or None
        )
        if settings.ready_file is not None:
            await stack.enter_async_context(kept_ready(settings.ready_file, checks))
        await stopping.wait()


async def _work(stack: AsyncExitStack, built: Core, queues: Sequence[WorkerQueue]) -> None:
    """Poll these queues until `stack` ends; beside the workflows, whatever makes every open call end."""
    settings = built.settings
    services = await stack.enter_async_context(activity_services(built, inline=False, queues=queues))
    await say_policy(built, by="worker")
    for queue in queues:
        worker = (
            workflow_worker(built.temporal, services, build_id=settings.build_id)
            if queue == "workflows"
            else effect_worker(built.temporal, services, queue, build_id=settings.build_id)
        )
        await stack.enter_async_context(worker)
    if "workflows" in queues:
        healer = Healer(
            built.ledger,
            built.temporal,
            built.catalog,
            settings.task_queue,
            public_url=settings.public_url,
            diagnostics_days=settings.diagnostics_days,
        )
        file = notices_file(settings.notices_file)
        courier = Courier(built.ledger, built.temporal, file, settings.task_queue, keep_days=settings.notices_days)
        tended = {"healing": healer.run, "telling": courier.run}
        await stack.enter_async_context(_tending(built.ledger, tended))


@asynccontextmanager
async def _tending(ledger: Ledger, tended: Mapping[str, Callable[[], Awaitable[None]]]) -> AsyncGenerator[None]:
    """While the context lasts, this process does each of these works, unless another one is at it."""
    tasks = [asyncio.create_task(Leader(ledger.leases, name).run(work)) for name, work in tended.items()]
    try:
        yield
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _sealing(settings: Settings, ledger: Ledger) -> AsyncGenerator[Sealing]:
    denials = Denials(ledger.streams, settings.tenant)
    private = "witnesses" in settings.private_systems()
    async with open_witnesses(settings.witnesses, Proofs(ledger.system), private=private, denied=denials) as witnesses:
        yield Sealing(ledger, checkpoint_file(settings), witnesses)
    await denials.drain()
