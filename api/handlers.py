"""What the framework would answer by itself, as problems of ours; browsers that ask for a page get one."""

from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from api.pages.routing import PageError, problem_page
from api.problems import Refused, on_refused, refuse, send_plain_problem
from ledger.data_keys import KeyDestroyed
from schemas.codes import Code
from schemas.replies import Explanation
from tools.arguments import describe

_NOT_PAGES = ("/v1/", "/mcp/", "/codec/", "/.well-known/", "/codes/", "/healthz", "/readyz", "/openapi.json")
_NO_PAGE = PageError(HTTPStatus.NOT_FOUND, "There is no such page", "Check the address, or start from the inbox.")
_NO_METHOD = PageError(HTTPStatus.METHOD_NOT_ALLOWED, "That cannot be done here", "Nothing was changed.")


async def on_erased(request: Request, problem: Exception) -> Response:
    """What was asked for was erased with its customer; pages say so themselves."""
    if not isinstance(problem, KeyDestroyed):
        raise problem
    return send_plain_problem(HTTPStatus.GONE, "Erased", "The customer was erased, and what this would show with them.")


async def on_http_exception(request: Request, problem: Exception) -> Response:
    """No such path, or not with that method."""
    if not isinstance(problem, HTTPException):
        raise problem
    wrong_method = problem.status_code == HTTPStatus.METHOD_NOT_ALLOWED
    if _wants_a_page(request):
        response = problem_page(request, _NO_METHOD if wrong_method else _NO_PAGE)
        response.headers.update(problem.headers or {})
        return response
    return await on_refused(request, _refused(problem, wrong_method=wrong_method))


def _refused(problem: HTTPException, *, wrong_method: bool) -> Refused:
    headers = dict(problem.headers or {})
    if wrong_method:
        said = f"this path does not take that method, only {headers.get('Allow', 'others')}"
        return refuse(Code.INVALID_INPUT, Explanation(values={"problem": said}), status=405, headers=headers)
    if problem.status_code == HTTPStatus.NOT_FOUND:
        said = "there is no such path; /openapi.json has those that there are"
        return refuse(Code.INVALID_INPUT, Explanation(values={"problem": said}), status=404, headers=headers)
    return refuse(Code.INVALID_INPUT, Explanation(values={"problem": "the request cannot be read"}), status=400)


def _wants_a_page(request: Request) -> bool:
    path = request.url.path
    return not f"{path}/".startswith(_NOT_PAGES) and "text/html" in request.headers.get("accept", "")


async def on_invalid_request(request: Request, problem: Exception) -> Response:
    """A query parameter that does not fit: named, with what would fit; never echoed."""
    if not isinstance(problem, RequestValidationError):
        raise problem
    names = tuple(sorted({str(error["loc"][-1]) for error in problem.errors()}))
    known = _parameters(request)
    said = [f"{name} must be {describe({}, known[name])}" if name in known else f"check {name}" for name in names]
    explanation = Explanation(values={"problem": "; ".join(said)}, invalid_fields=names)
    return await on_refused(request, refuse(Code.INVALID_INPUT, explanation))


def _parameters(request: Request) -> dict[str, dict[str, Any]]:
    """The schemas of the route's query parameters, by name."""
    path = getattr(request.scope.get("route"), "path", "")
    operation = request.app.openapi()["paths"].get(path, {}).get(request.method.lower(), {})
    return {each["name"]: each["schema"] for each in operation.get("parameters", ()) if each["in"] == "query"}
