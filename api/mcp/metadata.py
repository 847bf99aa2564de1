"""What the interfaces for agents say of themselves to clients that look for a token (RFC 9728).

There is no authorization server to send them to: whoever runs the agent opens its run (`POST /v1/runs`).
"""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from api.authentication import WELL_KNOWN, resource_of
from api.context import Services

router = APIRouter(include_in_schema=False)


@router.get(WELL_KNOWN)
@router.get(f"{WELL_KNOWN}/mcp")
async def protected_mcp(services: Services) -> JSONResponse:
    """https://www.rfc-editor.org/rfc/rfc9728#section-3.1; also for clients that look for one resource alone."""
    return _metadata(resource_of(services, "mcp"))


@router.get(f"{WELL_KNOWN}/v1")
async def protected_v1(services: Services) -> JSONResponse:
    """The same of the HTTP API."""
    return _metadata(resource_of(services, "v1"))


def _metadata(resource: str) -> JSONResponse:
    """https://www.rfc-editor.org/rfc/rfc9728#section-2"""
    said = {"resource": resource, "resource_name": "Counterseal", "bearer_methods_supported": ["header"]}
    return JSONResponse(said)
