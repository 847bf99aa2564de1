"""Liveness and readiness."""

import asyncio

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from api.context import Context, Services
from api.readiness import holds

router = APIRouter()


@router.get("/healthz")
async def healthz() -> Response:
    """The process answers."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", responses={503: {"description": "One of them does not", "content": {"application/json": {}}}})
async def readyz(services: Services) -> Response:
    """The database and Temporal answer."""
    database, temporal, others = await asyncio.gather(
        holds(services.ledger.ready()),
        holds(_temporal(services)),
        services.others.look(services.ledger, services.temporal, services.task_queue),
    )
    # Whatever others leave undone, no other API would do better: it is said, and takes none of them out of service.
    return JSONResponse({"database": database, "temporal": temporal, **others}, 200 if database and temporal else 503)


async def _temporal(services: Context) -> bool:
    return await services.temporal.service_client.check_health()
