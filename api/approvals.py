"""The approver's JSON API: the same inbox and the same decision as the web form, for other consoles."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import JsonValue, StringConstraints

from api import cursors
from api.authentication import Approver
from api.claiming import NotClaimed, claim, release
from api.context import Services
from api.deciding import Decided, Decider, Refused, decide
from api.edge import json_object
from api.extending import NotExtended, extend
from api.openapi import BODY, QUERY, answer, plain_problem, problems, takes
from api.parsing import parse
from api.problems import refuse, send_plain_problem
from ledger.inbox import Filter
from schemas.base import Model
from schemas.codes import Code
from schemas.decisions import Approval, ClaimedBy
from schemas.ids import is_approval_id
from schemas.replies import Explanation

router = APIRouter(prefix="/v1/approvals")

_REFUSALS: dict[Refused, tuple[int, str]] = {
    "not_found": (404, "There is no such approval."),
    "not_yours": (403, "This is not yours to decide."),
    "over_limit": (403, "The amount is more than is yours to approve."),
    "reason_required": (422, "A reason is required to deny."),
    "not_proven": (
        403,
        "Approving this takes a proof of who you are that no token is: approve it on its page. Denying takes none.",
    ),
    "claimed": (409, "{claimed_by} is reading it: take it over first (claim, with take_over), or leave it to them."),
    "already_decided": (409, "It was already decided; the first decision stands."),
    "replaced": (409, "People are asked anew, as {successor}: read that one."),
    "expired": (409, "The deadline has passed; nothing was done."),
    "stale": (409, "The action is not the one that was shown. Read it again."),
}


HIDDEN = ("tenant", "closed_at", "action")
"""Fields of an approval that its JSON does not have."""


class Decide(Model):
    """Body of `POST /v1/approvals/{id}/decision`."""

    decision: Literal["approve", "deny"]
    action_digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    reason: Annotated[str, StringConstraints(max_length=2000)] = ""


class Approvals(Model):
    """Answer of `GET /v1/approvals`."""

    approvals: list[Approval]
    next_cursor: str | None


class DecisionTaken(Model):
    """Answer of `POST /v1/approvals/{id}/decision`."""

    status: Literal["approved", "denied", "waiting_for_second"]


class MoreTime(Model):
    """Body of `POST /v1/approvals/{id}/deadline`: until when, in UTC and whole seconds."""

    expires_at: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")]
    reason: Annotated[str, StringConstraints(min_length=1, max_length=2000)]


class TakeClaim(Model):
    """Body of `POST /v1/approvals/{id}/claim`. `take_over`: also from somebody else."""

    take_over: bool = False


class Release(Model):
    """Body of `POST /v1/approvals/{id}/release`: an empty object."""


_NOT_CLAIMED: dict[NotClaimed, tuple[int, str]] = {
    "not_found": (404, "There is no such approval."),
    "not_yours": (403, "This is not yours to decide."),
    "claimed": (409, "{claimed_by} is reading it: take it over (take_over), or leave it to them."),
    "already_decided": (409, "It no longer waits for anyone."),
}


class DeadlineMoved(Model):
    """Answer of `POST /v1/approvals/{id}/deadline`."""

    expires_at: datetime


_NOT_EXTENDED: dict[NotExtended, tuple[int, str]] = {
    "not_found": (404, "There is no such approval."),
    "not_yours": (403, "This is not yours to decide, so its deadline is not yours to move."),
    "reason_required": (422, "A reason is required."),
    "already_decided": (409, "It was already decided."),
    "expired": (409, "The deadline has passed; nothing was done."),
    "not_later": (409, "The deadline is as late already."),
    "too_far": (422, "The deadline can be at most 7 days away."),
}
_NO_SUCH = plain_problem("There is no such approval")


@router.get(
    "",
    responses={200: answer(Approvals, "What waits"), **problems(invalid=QUERY)},
    openapi_extra=takes("approver"),
)
async def list_approvals(
    approver: Approver,
    services: Services,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
    tool: Annotated[str | None, Query(pattern=r"^[a-z0-9_]{1,64}$")] = None,
) -> Response:
    """What waits in the approver's tenant, oldest deadline first."""
    try:
        after = cursors.decode(cursor)
    except cursors.BadCursor:
        raise refuse(Code.INVALID_INPUT, Explanation(values={"problem": "the cursor is not one of ours"})) from None
    inbox = services.ledger.of(approver.tenant).inbox
    found = await inbox.waiting(approver.tenant, Filter(tool=tool), after=after, limit=limit + 1)
    page = found[:limit]
    next_cursor = cursors.encode(page[-1].expires_at, page[-1].approval_id) if len(found) > limit else None
    return JSONResponse({"approvals": [approval_json(each) for each in page], "next_cursor": next_cursor})


@router.get(
    "/{approval_id}",
    responses={200: answer(Approval, "The approval"), **problems(), 404: _NO_SUCH},
    openapi_extra=takes("approver"),
)
async def get_approval(approval_id: str, approver: Approver, services: Services) -> Response:
    """One approval: the exact action, the facts it was parked on, the rule that held it."""
    approval = None
    if is_approval_id(approval_id):
        approval = await services.ledger.of(approver.tenant).approvals.get(approver.tenant, approval_id)
    if approval is None:
        return send_plain_problem(404, "Not found", _REFUSALS["not_found"][1])
    return JSONResponse(approval_json(approval))


@router.post(
    "/{approval_id}/decision",
    responses={
        200: answer(DecisionTaken, "Decided"),
        **problems(invalid=BODY),
        403: plain_problem("Not yours to decide, or only with a proof that the page takes", Code.FORBIDDEN),
        404: _NO_SUCH,
        409: plain_problem("Decided already, expired, or not the action that was shown"),
        422: plain_problem("The body does not fit, or a reason is missing", Code.INVALID_INPUT),
    },
    openapi_extra=takes("approver", Decide),
)
async def post_decision(approval_id: str, request: Request, approver: Approver, services: Services) -> Response:
    """Approve or deny what was shown. The first decision wins."""
    asked = parse(Decide, await json_object(request))
    decided = await decide(
        services,
        Decider.of(approver),
        approval_id,
        asked.decision,
        action_digest=asked.action_digest,
        reason=asked.reason,
        through="api",
    )
    if decided.refused is not None:
        status, detail = _REFUSALS[decided.refused]
        return send_plain_problem(status, "Not decided", _said(detail, decided))
    return JSONResponse({"status": decided.status})


@router.post(
    "/{approval_id}/deadline",
    responses={
        200: answer(DeadlineMoved, "It has more time"),
        **problems(invalid=BODY),
        403: plain_problem("Not yours to decide", Code.FORBIDDEN),
        404: _NO_SUCH,
        409: plain_problem("Decided already, expired, or the deadline is as late already"),
        422: plain_problem("The body does not fit, or the deadline is too far away", Code.INVALID_INPUT),
    },
    openapi_extra=takes("approver", MoreTime),
)
async def post_deadline(approval_id: str, request: Request, approver: Approver, services: Services) -> Response:
    """Give people more time. Sent twice, it counts once."""
    asked = parse(MoreTime, await json_object(request))
    try:
        until = datetime.fromisoformat(asked.expires_at)
    except ValueError:
        said = Explanation(values={"problem": "expires_at is no moment"}, invalid_fields=("expires_at",))
        raise refuse(Code.INVALID_INPUT, said) from None
    extended = await extend(services, Decider.of(approver), approval_id, until, reason=asked.reason)
    if extended.refused is not None:
        status, detail = _NOT_EXTENDED[extended.refused]
        return send_plain_problem(status, "No more time was given", detail)
    return JSONResponse({"expires_at": asked.expires_at})


def _said(detail: str, decided: Decided) -> str:
    by = decided.claimed_by.display_name if decided.claimed_by else ""
    return detail.format(successor=decided.successor, claimed_by=by)


@router.post(
    "/{approval_id}/claim",
    responses={
        200: answer(ClaimedBy, "It is theirs to decide"),
        **problems(invalid=BODY),
        403: plain_problem("Not yours to decide", Code.FORBIDDEN),
        404: _NO_SUCH,
        409: plain_problem("Somebody else is reading it, or it no longer waits"),
    },
    openapi_extra=takes("approver", TakeClaim),
)
async def post_claim(approval_id: str, request: Request, approver: Approver, services: Services) -> Response:
    """Say that one is reading it: for a quarter of an hour, or as long again, nobody else decides it."""
    asked = parse(TakeClaim, await json_object(request))
    claimed = await claim(services, Decider.of(approver), approval_id, take_over=asked.take_over)
    if claimed.refused is not None or claimed.by is None:
        status, detail = _NOT_CLAIMED[claimed.refused or "already_decided"]
        by = claimed.by.display_name if claimed.by else ""
        return send_plain_problem(status, "Not claimed", detail.format(claimed_by=by))
    return JSONResponse(claimed.by.model_dump(mode="json"))


@router.post(
    "/{approval_id}/release",
    status_code=204,
    responses={**problems(invalid=BODY), 404: _NO_SUCH},
    openapi_extra=takes("approver", Release),
)
async def post_release(approval_id: str, request: Request, approver: Approver, services: Services) -> Response:
    """Let others read it. Of what is not theirs nothing changes."""
    parse(Release, await json_object(request))
    if not await release(services, Decider.of(approver), approval_id):
        return send_plain_problem(404, "Not found", _REFUSALS["not_found"][1])
    return Response(status_code=204)


def approval_json(approval: Approval) -> dict[str, JsonValue]:
    """The approval as the contract has it."""
    content: dict[str, JsonValue] = approval.model_dump(mode="json", exclude=set(HIDDEN))
    return {**content, "erased": True} if approval.erased else content
