"""The worker process: the queues it was asked to serve, and the healer beside the workflows."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import structlog
import uvloop

from ledger.proving import Proofs
from runtime.assembly import Core, activity_services, checkpoint_file, core, say_policy
from runtime.denials import Denials
from runtime.healing import Healer
from runtime.logs import start_logging
from runtime.notices import Courier, notices_file
from runtime.sealing import Sealing
from runtime.settings import Settings
from runtime.telemetry import start_tracing
from runtime.witnesses import open_witnesses
from runtime.workers import effect_worker, workflow_worker
from schemas.tools import EFFECT_QUEUES, WorkerQueue

QUEUES: tuple[WorkerQueue, ...] = ("workflows", *EFFECT_QUEUES)
_log = structlog.get_logger()


def run_worker(settings: Settings, queues: Sequence[WorkerQueue] = QUEUES) -> None:
    """Serve `queues` until SIGINT or SIGTERM; what was begun is finished first."""
    start_logging(settings.log_level)
    stop_tracing = start_tracing("worker", settings.traces_file)
    try:
        uvloop.run(_serve(settings, queues))
    finally:
        stop_tracing()


@asynccontextmanager
async def _sealing(built: Core) -> AsyncGenerator[Sealing]:
    settings = built.settings
    denials = Denials(built.ledger.streams, settings.tenant)
    private = "witnesses" in settings.private_systems()
    proofs = Proofs(built.ledger.system)
    async with open_witnesses(settings.witnesses, proofs, private=private, denied=denials) as witnesses:
        yield Sealing(built.ledger, checkpoint_file(settings), witnesses)
    await denials.drain()


async def _serve(settings: Settings, queues: Sequence[WorkerQueue]) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        built = await stack.enter_async_context(core(settings))
        services = await stack.enter_async_context(activity_services(built, inline=False, queues=queues))
        await say_policy(built, by="worker")
        for queue in queues:
            worker = (
                workflow_worker(built.temporal, services, build_id=settings.build_id)
                if queue == "workflows"
                else effect_worker(built.temporal, services, queue, build_id=settings.build_id)
            )
            await stack.enter_async_context(worker)
        tending: list[asyncio.Task[None]] = []
        if "workflows" in queues:
            healer = Healer(
                built.ledger,
                built.temporal,
                built.catalog,
                settings.task_queue,
                diagnostics_days=settings.diagnostics_days,
            )
            file = notices_file(settings.notices_file)
            courier = Courier(built.ledger, built.temporal, file, settings.task_queue, keep_days=settings.notices_days)
            tending = [asyncio.create_task(each.run()) for each in (healer, courier)]
            sealing = await stack.enter_async_context(_sealing(built))
            tending.append(asyncio.create_task(sealing.run(stopping.set)))
        _log.info(
            "worker_ready", queues=list(queues), task_queue=settings.task_queue, build_id=settings.build_id or None
        )
        if settings.ready_file is not None:
            settings.ready_file.touch()
        await stopping.wait()
        for each in tending:
            each.cancel()
