"""The application: routes over a context, and what holds for every response."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles

from api import agent, approvals, codes, health, pages
from api.failures import Failures
from api.pages.security import SecurityHeaders
from api.problems import Refused, on_refused, refuse
from api.tracing import RequestSpans
from schemas.codes import Code
from schemas.replies import Explanation

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_app(lifespan: Lifespan) -> FastAPI:
    """The service's HTTP interface. `lifespan` puts the `Context` at `app.state.context`."""
    app = FastAPI(
        title="Counterseal",
        version="1",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        # Its own spans and logs hold URL queries and exception texts; ours (`RequestSpans`) do not.
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
    )
    for module in (agent, approvals, codes, health, pages):
        app.include_router(module.router)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static")
    app.add_exception_handler(Refused, on_refused)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_middleware(Failures)
    app.add_middleware(RequestSpans)
    app.add_middleware(SecurityHeaders)
    return app


async def _on_invalid_request(request: Request, problem: Exception) -> Response:
    """A query or path parameter that does not fit: named, never echoed."""
    names: tuple[str, ...] = ()
    if isinstance(problem, RequestValidationError):
        names = tuple(sorted({str(error["loc"][-1]) for error in problem.errors()}))
    said = Explanation(values={"problem": f"check {', '.join(names) or 'the parameters'}"}, invalid_fields=names)
    return await on_refused(request, refuse(Code.INVALID_INPUT, said))
