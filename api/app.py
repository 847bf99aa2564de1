"""The application: routes over a context, and what holds for every response."""

import mimetypes
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from api import agent, approvals, codec, codes, health, metrics, webhooks
from api.envelope import Envelope
from api.failures import Failures
from api.handlers import on_erased, on_http_exception, on_invalid_request
from api.mcp import metadata
from api.mcp.endpoint import Endpoint
from api.openapi import describe
from api.pages import router as pages
from api.pages.security import SecurityHeaders
from api.problems import Refused, on_refused
from api.tracing import RequestSpans
from ledger.data_keys import KeyDestroyed
from schemas.base import Model
from schemas.decisions import Approval, ClaimedBy
from schemas.replies import VERSION

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_app(lifespan: Lifespan) -> FastAPI:
    """The service's HTTP interface. `lifespan` puts the `Context` at `app.state.context`."""
    mcp = Endpoint()

    @asynccontextmanager
    async def with_mcp(app: FastAPI) -> AsyncGenerator[None]:
        async with lifespan(app), mcp.running():
            yield

    app = FastAPI(
        title="Counterseal",
        version=VERSION,
        lifespan=with_mcp,
        # A redirect would be made of whatever Host the request names.
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        # Its own spans and logs hold URL queries and exception texts; ours (`RequestSpans`) do not.
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
    )
    for module in (agent, webhooks, approvals, codec, codes, health, metadata, metrics):
        # Not `include_router`, which would have every path looked up twice for each request.
        app.router.routes.extend(module.router.routes)
    # A request tries one route after another; pages are the most and the least often asked for.
    app.router.routes.extend([mcp.route, *pages.router.routes])
    # Of the system's own table some say otherwise, and nothing but this would be run.
    mimetypes.add_type("text/javascript", ".js")
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static")
    app.add_exception_handler(Refused, on_refused)
    app.add_exception_handler(RequestValidationError, on_invalid_request)
    app.add_exception_handler(HTTPException, on_http_exception)
    app.add_exception_handler(KeyDestroyed, on_erased)
    app.add_middleware(Failures)
    app.add_middleware(codec.FromTemporalUi)
    app.add_middleware(RequestSpans)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(Envelope)
    app.openapi = partial(_description, app)
    return app


_MODELS: dict[type[Model], str] = {
    agent.OpenRun: "validation",
    agent.CallTool: "validation",
    agent.RunOpened: "serialization",
    agent.RunRevoked: "serialization",
    agent.Tools: "serialization",
    approvals.Decide: "validation",
    approvals.Approvals: "serialization",
    approvals.DecisionTaken: "serialization",
    approvals.MoreTime: "validation",
    approvals.DeadlineMoved: "serialization",
    approvals.TakeClaim: "validation",
    approvals.Release: "validation",
    ClaimedBy: "serialization",
    codec.Payloads: "validation",
    Approval: "serialization",
}


def description(app: FastAPI, base: str) -> dict[str, Any]:
    """The OpenAPI document of a service whose public URL is `base`."""
    return describe(app, base, _MODELS, {"Approval": approvals.HIDDEN})


def _description(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, made once."""
    if app.openapi_schema is None:
        app.openapi_schema = description(app, app.state.context.public_url)
    return app.openapi_schema
