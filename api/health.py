"""Liveness and readiness."""

from collections.abc import Awaitable

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from api.context import Services

router = APIRouter()


@router.get("/healthz")
async def healthz() -> Response:
    """The process answers."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", responses={503: {"description": "One of them does not", "content": {"application/json": {}}}})
async def readyz(services: Services) -> Response:
    """The database and Temporal answer."""
    checks = {"database": await _holds(services.ledger.ready()), "temporal": await _holds(_temporal(services))}
    return JSONResponse(checks, 200 if all(checks.values()) else 503)


async def _temporal(services: Services) -> bool:
    return await services.temporal.service_client.check_health()


async def _holds(check: Awaitable[bool]) -> bool:
    try:
        return await check
    except Exception:  # noqa: BLE001
        # Whatever went wrong, the answer is that it is not ready; its text stays here.
        return False
