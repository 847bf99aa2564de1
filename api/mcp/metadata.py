"""What the interfaces for agents say of themselves to clients that look for a token (RFC 9728).

There is no authorization server to send them to: whoever runs the agent opens its run (`POST /v1/runs`).
"""

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse

from api.authentication import WELL_KNOWN, Surface, resource_of
from api.context import Services

router = APIRouter(include_in_schema=False)


@router.get(WELL_KNOWN)
async def protected_resource(services: Services) -> JSONResponse:
    """Of `/mcp`, for clients that look for one resource alone."""
    return _metadata(resource_of(services, "mcp"))


@router.get(f"{WELL_KNOWN}/{{surface}}")
async def protected_resource_at(surface: Annotated[Surface, Path()], services: Services) -> JSONResponse:
    """https://www.rfc-editor.org/rfc/rfc9728#section-3.1"""
    return _metadata(resource_of(services, surface))


def _metadata(resource: str) -> JSONResponse:
    """https://www.rfc-editor.org/rfc/rfc9728#section-2"""
    said = {"resource": resource, "resource_name": "Counterseal", "bearer_methods_supported": ["header"]}
    return JSONResponse(said)
