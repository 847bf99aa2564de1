"""What `/mcp` says of itself to clients that look for a token (RFC 9728).

There is no authorization server to send them to: whoever runs the agent opens its run (`POST /v1/runs`).
"""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from api.authentication import WELL_KNOWN, resource_of
from api.context import Services

router = APIRouter(include_in_schema=False)


@router.get(WELL_KNOWN)
@router.get(f"{WELL_KNOWN}/mcp")
async def protected_resource(services: Services) -> JSONResponse:
    """https://www.rfc-editor.org/rfc/rfc9728#section-2"""
    return JSONResponse(
        {
            "resource": resource_of(services, "mcp"),
            "resource_name": "Counterseal",
            "bearer_methods_supported": ["header"],
        }
    )
