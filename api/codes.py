"""What a problem's `type` points to: the page of its code, from the registry."""

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from api.context import Services
from api.openapi import problem
from api.problems import refuse
from schemas.codes import Code
from schemas.guide import page
from schemas.replies import Explanation

router = APIRouter()


@router.get("/codes/{code}", response_class=PlainTextResponse, responses={404: problem(Code.INVALID_INPUT)})
async def code_page(code: str, services: Services) -> Response:
    """One code: what it means, what to do next, an example."""
    if code not in Code.__members__:
        said = Explanation(values={"problem": "there is no such code"}, invalid_fields=("code",))
        raise refuse(Code.INVALID_INPUT, said, status=404)
    return PlainTextResponse(page(Code(code), services.public_url))
