"""One process of a plain form: `python -m tests.bench.plain.service`, told by standard input what to be.

`endpoint`: HTTP; `worker`: works off workflows; both in one process where workflows are started eagerly.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass

import asyncpg
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from temporalio.client import Client
from temporalio.worker import PollerBehaviorAutoscaling, UnsandboxedWorkflowRunner, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from tests.bench.plain.refunds import Approved, Fastest, Payments, Refund, Written

QUEUE = "plain"


@dataclass(frozen=True)
class Told:
    """What the process is. `port`: that of its endpoint, 0 for none."""

    temporal: str
    database: str
    gateway: str
    gateway_key: str
    port: int
    works: bool
    fastest: bool

    def text(self) -> str:
        return json.dumps(asdict(self))


class Endpoint:
    """The least that an HTTP endpoint before a workflow can be: it checks nothing."""

    def __init__(self, client: Client, *, fastest: bool) -> None:
        self._client = client
        self._fastest = fastest

    def routes(self) -> list[Route]:
        return [
            Route("/healthz", self.healthz),
            Route("/refunds", self.refund, methods=["POST"]),
            Route("/parked", self.park, methods=["POST"]),
            Route("/parked/{key}/approve", self.approve, methods=["POST"]),
        ]

    async def healthz(self, request: Request) -> Response:
        return JSONResponse({})

    async def refund(self, request: Request) -> Response:
        refund = Refund(**await request.json())
        workflow = Fastest.run if self._fastest else Written.run
        refund_id = await self._client.execute_workflow(
            workflow, refund, id=refund.key, task_queue=QUEUE, request_eager_start=self._fastest
        )
        return JSONResponse({"status": "executed", "refund": refund_id})

    async def park(self, request: Request) -> Response:
        refund = Refund(**await request.json())
        await self._client.start_workflow(
            Approved.run, refund, id=refund.key, task_queue=QUEUE, request_eager_start=self._fastest
        )
        return JSONResponse({"status": "pending_approval"})

    async def approve(self, request: Request) -> Response:
        await self._client.get_workflow_handle(request.path_params["key"]).signal(Approved.approve)
        return JSONResponse({"status": "approved"})


@asynccontextmanager
async def working(client: Client, told: Told) -> AsyncGenerator[None]:
    """Works off workflows and activities while it is entered."""
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(asyncpg.create_pool(told.database, min_size=1, max_size=20))
        gateway = await stack.enter_async_context(
            httpx.AsyncClient(
                base_url=told.gateway, headers={"Authorization": f"Bearer {told.gateway_key}"}, trust_env=False
            )
        )
        payments = Payments(gateway, pool)
        pollers = PollerBehaviorAutoscaling(minimum=1, maximum=20, initial=2)
        await stack.enter_async_context(
            Worker(
                client,
                task_queue=QUEUE,
                workflows=[Written, Fastest, Approved],
                activities=[payments.pay, payments.audit, payments.pay_and_audit],
                workflow_runner=UnsandboxedWorkflowRunner() if told.fastest else SandboxedWorkflowRunner(),
                workflow_task_poller_behavior=pollers,
                activity_task_poller_behavior=pollers,
            )
        )
        yield


def main() -> None:
    told = Told(**json.loads(sys.stdin.readline()))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        client = await Client.connect(told.temporal)
        app.routes.extend(Endpoint(client, fastest=told.fastest).routes())
        async with AsyncExitStack() as stack:
            if told.works:
                await stack.enter_async_context(working(client, told))
            yield

    async def work() -> None:
        async with working(await Client.connect(told.temporal), told):
            await asyncio.Event().wait()

    if told.port:
        uvicorn.run(
            Starlette(lifespan=lifespan),
            host="127.0.0.1",
            port=told.port,
            loop="uvloop",
            http="httptools",
            log_level="warning",
            access_log=False,
        )
    else:
        asyncio.run(work())


if __name__ == "__main__":
    main()
