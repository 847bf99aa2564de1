"""Webhooks of the payment gateway. Whatever one says, all that it does is to have something looked at again: they come
in any order, several times, early and late."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

import structlog
from fastapi import APIRouter, Request, Response
from opentelemetry import metrics
from temporalio.service import RPCError

from api.context import Context, Services
from api.edge import only_json, read_body
from api.looking import look_again
from api.openapi import JSON, problem
from api.problems import Refused, refuse
from gateways.webhooks import NotGenuineError, Notice
from ledger.calls import CallOfEffect
from ledger.records import SETTLED, CallRecord
from schemas.codes import Code, Status
from schemas.ids import is_operation_id
from schemas.replies import Explanation

MAX_BYTES = 1024 * 1024
_TEMPORAL_SECONDS = 5.0
_RETRY_SECONDS = 2
# A webhook that comes before the answer to the request that it is about is held for so long.
_ANSWER_SECONDS = 1.0
_UNKNOWN: frozenset[Status] = frozenset({"outcome_unknown"})
_ANSWERED = SETTLED | _UNKNOWN

_log = structlog.get_logger()
_RECEIVED = metrics.get_meter("counterseal.api").create_counter(
    "counterseal.webhooks", description="Webhooks received, by gateway and by what came of them"
)

router = APIRouter(prefix="/v1/webhooks")


@router.post(
    "/{gateway}",
    response_class=Response,
    responses={
        200: {"description": "Taken: what it is about will be looked at again, or is nothing of this service's"},
        **{status: problem(Code.INVALID_INPUT) for status in (400, 404, 413, 415)},
        500: problem(Code.INTERNAL_FAILURE),
        503: problem(Code.TEMPORARY_FAILURE),
    },
    openapi_extra={
        "requestBody": {
            "description": "An event of the gateway's own form, signed in a header of the gateway's own form",
            "required": True,
            "content": {JSON: {"schema": {"type": "object"}}},
        }
    },
)
async def take_webhook(gateway: str, request: Request, services: Services) -> Response:
    """For the payment gateway alone: says that something changed there. Takes no token, but the gateway's signature;
    what is not taken with 200 is to be sent again."""
    reader = services.webhooks.get(gateway)
    if reader is None:
        raise _invalid(404, "there is no such gateway")
    only_json(request)
    body = await read_body(request, MAX_BYTES)
    try:
        notice = await reader.read(dict(request.headers), body, datetime.now(UTC))
    except NotGenuineError as problem:
        _received(gateway, "not_genuine")
        _log.warning("webhook_not_genuine", gateway=gateway, because=str(problem))
        raise _invalid(400, "this is no webhook that the gateway signed just now") from None
    _received(gateway, "unrelated" if notice is None else await _pass_on(services, notice))
    return Response()


async def _pass_on(services: Context, notice: Notice) -> Literal["passed_on", "nothing_new", "unknown"]:
    """Has the call that the notice is about looked at again; returns once that is durable.

    Raises Refused (TEMPORARY_FAILURE) when Temporal is away, and what the database raises when that is.
    """
    # The metadata of a refund that somebody made by hand can hold any text at all.
    ours = notice.operation_id is not None and is_operation_id(notice.operation_id)
    if not ours and notice.refund_id is None:
        return "unknown"
    call = await services.ledger.calls.by_effect(notice.operation_id if ours else None, notice.refund_id)
    if call is None:
        return "unknown"
    # Most are about a refund just made, whose answer arrived: a look at each would double what a call costs.
    if notice.status is not None:
        record = await _answered(services, call)
        if says_nothing_new(notice, record):
            return "nothing_new"
        # Who is to look depends on how the call stands now.
        call = replace(call, status=record.status)
    try:
        async with asyncio.timeout(_TEMPORAL_SECONDS):
            await look_again(
                services.temporal, services.catalog, services.task_queue, call, public_url=services.public_url
            )
    except (RPCError, TimeoutError) as problem:
        _log.warning("webhook_not_passed_on", error_type=type(problem).__name__)
        raise refuse(Code.TEMPORARY_FAILURE, Explanation(retry_after_seconds=_RETRY_SECONDS)) from None
    return "passed_on"


async def _answered(services: Context, call: CallOfEffect) -> CallRecord:
    """The call; one whose effect is on its way a moment later, since its answer is as well."""
    moved = None
    if call.status == "in_progress":
        moved = await services.waiters.wait(call.workflow_id, _ANSWER_SECONDS, _ANSWERED)
    return moved or await services.ledger.of(call.tenant).calls.read(call.request_id)


def says_nothing_new(notice: Notice, record: CallRecord) -> bool:
    """Pure. Whether a call's very refund was found at the gateway to be as the notice says it is.

    Not so for another refund under the same operation id: two are one too many.
    """
    result = record.details.result
    return (
        record.status == "executed"
        and notice.refund_id == record.remote_id
        and result is not None
        and result.get("status") == notice.status
    )


def _received(gateway: str, outcome: str) -> None:
    _RECEIVED.add(1, {"gateway": gateway, "outcome": outcome})


def _invalid(status: int, said: str) -> Refused:
    return refuse(Code.INVALID_INPUT, Explanation(values={"problem": said}), status=status)
