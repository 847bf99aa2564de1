"""Refusals as HTTP: RFC 9457 problem documents that carry the reply object beside the standard members."""

from collections.abc import Mapping

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from opentelemetry import trace

from activities.tracing import describe_request
from api.context import Context, context_of
from api.limits import count_refusal
from schemas.codes import REGISTRY, Code
from schemas.ids import new_request_id
from schemas.replies import Explanation, Reply, problem_document, reply_for

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
    status = REGISTRY[reply.code].http_status
    if is_problem(reply):
        return problem_response(reply, status, base=base)
    return Response(reply.to_json(), status_code=200 if reply.dry_run else status, media_type="application/json")


def is_problem(reply: Reply) -> bool:
    """Whether a call is answered with a problem: it was refused or failed, and not only tried out."""
    return not reply.ok and not reply.dry_run and REGISTRY[reply.code].http_status >= 400


def problem_response(reply: Reply, status: int, *, base: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """`problem_document` as a response."""
    sent = dict(headers or {})
    if reply.retry_after_seconds is not None:
        sent.setdefault("Retry-After", str(reply.retry_after_seconds))
    return JSONResponse(problem_document(reply, status, base), status, sent, MEDIA_TYPE)


def send_plain_problem(status: int, title: str, detail: str) -> JSONResponse:
    """A problem that is no tool call's: for approvers and operators."""
    return JSONResponse(
        {"type": "about:blank", "title": title, "status": status, "detail": detail}, status, None, MEDIA_TYPE
    )


async def on_refused(request: Request, problem: Exception) -> Response:
    """Exception handler for `Refused`."""
    if not isinstance(problem, Refused):
        raise problem
    services = context_of(request)
    refused = await taken_note_of(request, services, problem)
    return problem_response(refused.reply, refused.status, base=services.public_url, headers=refused.headers)


async def taken_note_of(request: Request, services: Context, refused: Refused) -> Refused:
    """What is answered to a refused request: the refusal, counted and noted for its diagnostic; another one once there
    were too many."""
    reply = await count_refusal(request, refused.reply, services.ledger.attempts, services.limits)
    cause = refused.__cause__ or refused.__context__
    answered = Refused(
        reply,
        status=refused.status if reply.code is refused.reply.code else None,
        headers=refused.headers if reply.code is refused.reply.code else None,
    )
    describe_request(trace.get_current_span(), reply.request_id, reply.code)
    services.edge_diagnostics.note(request, reply, answered.status, cause)
    return answered
