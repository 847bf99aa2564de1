"""Our own failures: the caller gets a code and an id, the log the type of the exception."""

import time

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import Refused, on_refused, refuse
from ledger.database import UNAVAILABLE
from schemas.codes import Code
from schemas.replies import Explanation

_log = structlog.get_logger()
_RETRY_SECONDS = 2


class Failures:
    """ASGI middleware. The database being away is a temporary failure; anything else is ours."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False
        scope.setdefault("state", {})["began"] = time.monotonic()

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched_send)
        except Exception as problem:
            if started:
                raise
            response = await on_refused(Request(scope), failure(scope, problem))
            await response(scope, receive, send)


def failure(scope: Scope, problem: Exception) -> Refused:
    """What is answered in place of an exception, which the log names by its type."""
    if isinstance(problem, UNAVAILABLE):
        refused = refuse(Code.TEMPORARY_FAILURE, Explanation(retry_after_seconds=_RETRY_SECONDS))
    else:
        refused = refuse(Code.INTERNAL_FAILURE)
    route = getattr(scope.get("route"), "path", None)
    request_id = refused.reply.request_id
    _log.error("request_failed", request_id=request_id, error_type=type(problem).__name__, route=route)
    refused.__cause__ = problem
    return refused
