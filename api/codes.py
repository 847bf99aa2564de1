"""What a problem's `type` points to: the meaning of its code, from the registry."""

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from schemas.codes import REGISTRY, Code

router = APIRouter()


@router.get("/codes/{code}")
async def code_page(code: str) -> Response:
    """One code in a few lines."""
    if code not in Code.__members__:
        return JSONResponse({"type": "about:blank", "title": "Not found"}, 404, media_type="application/problem+json")
    spec = REGISTRY[Code(code)]
    return PlainTextResponse(
        f"{code}: {spec.title}\nstatus: {spec.status}\naction: {spec.action}\nHTTP status: {spec.http_status}\n"
        f"the same call may be sent again: {'yes' if spec.retryable else 'no'}\n\n{spec.message}\n"
    )
