"""Refusals as HTTP: RFC 9457 problem documents that carry the reply object beside the standard members."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from pydantic import JsonValue

from schemas.codes import REGISTRY, Code
from schemas.ids import new_request_id
from schemas.replies import Explanation, Reply, reply_for

if TYPE_CHECKING:
    from api.context import Context

MEDIA_TYPE = "application/problem+json"


class Refused(Exception):
    """A request that ends here, with this reply."""

    def __init__(self, reply: Reply, *, status: int | None = None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reply.code)
        self.reply = reply
        self.status = status or REGISTRY[reply.code].http_status
        self.headers = dict(headers or {})


def refuse(
    code: Code,
    explanation: Explanation | None = None,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Refused:
    """The exception for a request that never became a call; its request id is new and random."""
    return Refused(reply_for(code, new_request_id(), explanation), status=status, headers=headers)


def reply_response(reply: Reply, *, base: str) -> Response:
    """The answer to `POST /v1/tool-calls`: 200 or 202 with the reply, or a problem."""
    spec = REGISTRY[reply.code]
    if reply.ok or spec.http_status < 400 or reply.dry_run:
        return Response(
            reply.to_json(), status_code=spec.http_status if not reply.dry_run else 200, media_type="application/json"
        )
    return problem_response(reply, spec.http_status, base=base)


def problem_response(reply: Reply, status: int, *, base: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The reply's own fields keep their names: `status` is the call's, `http_status` the number that RFC 9457 calls
    `status` (a consumer that expects a number there must ignore it, section 3.1)."""
    content: dict[str, JsonValue] = {
        "type": f"{base}/codes/{reply.code}",
        "title": REGISTRY[reply.code].title,
        "detail": reply.message,
        "instance": f"/v1/tool-calls/{reply.request_id}",
        **reply.model_dump(mode="json", exclude_none=True),
        "http_status": status,
    }
    sent = dict(headers or {})
    if reply.retry_after_seconds is not None:
        sent.setdefault("Retry-After", str(reply.retry_after_seconds))
    return JSONResponse(content, status, sent, MEDIA_TYPE)


def plain_problem(status: int, title: str, detail: str) -> JSONResponse:
    """A problem that is no tool call's: for approvers and operators."""
    return JSONResponse(
        {"type": "about:blank", "title": title, "status": status, "detail": detail}, status, None, MEDIA_TYPE
    )


async def on_refused(request: Request, problem: Exception) -> Response:
    """Exception handler for `Refused`: the refusal is noted for its diagnostic, and answered."""
    if not isinstance(problem, Refused):
        raise problem
    services: Context = request.app.state.context
    services.edge_diagnostics.note(request, problem.reply, problem.status, problem.__cause__ or problem.__context__)
    return problem_response(problem.reply, problem.status, base=services.public_url, headers=problem.headers)
