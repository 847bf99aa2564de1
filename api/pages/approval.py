"""One approval: what would be done, on which facts, and the decision."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Literal

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api.amending import amendable
from api.context import Context, Services
from api.deciding import Decided, Refused, may_decide
from api.pages.consequences import consequences_of
from api.pages.coverage import off_rows
from api.pages.fields import argument_fields, fact_groups
from api.pages.forms import Fields, ProtectedForm
from api.pages.rendering import render
from api.pages.routing import READS, PageError, page_router
from api.pages.story import decision_of, outcome, story, symbol
from api.pages.views import (
    NO_SUCH_APPROVAL,
    decide_once,
    decided_by,
    decider,
    find_approval,
    row,
    switched_off,
    tool_title,
    workflow_url,
)
from api.pages.waiting import Asked, AskedFor, next_waiting
from api.proving import prove, ways_of
from api.sessions import SignedIn
from ledger.database import UNAVAILABLE
from ledger.principals import Person
from schemas.decisions import Approval
from schemas.proofs import Proof
from schemas.switches import SwitchOff

router = page_router()

MOST_UNTRUSTED = 2000
MOST_REASON = 2000
_SETTLING_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Notice:
    """Why a decision was not taken. `about`: the field that has to be corrected; `wait`: seconds until it helps to send
    it again."""

    status: HTTPStatus
    sentence: str
    about: Literal["reason", "password"] | None = None
    wait: int | None = None


_NOTICES: dict[Refused, Notice] = {
    "not_yours": Notice(
        HTTPStatus.FORBIDDEN, "This is not yours to decide. Your decision was not taken, and nothing was changed."
    ),
    "over_limit": Notice(
        HTTPStatus.FORBIDDEN,
        "It is more than is yours to approve. Your decision was not taken, and nothing was changed.",
    ),
    "reason_required": Notice(
        HTTPStatus.UNPROCESSABLE_ENTITY, "Say why you deny it. Nothing was decided yet.", about="reason"
    ),
    "not_proven": Notice(
        HTTPStatus.FORBIDDEN,
        "Approving this takes a proof that it is you. Your decision was not taken, and nothing was changed.",
    ),
    "already_decided": Notice(
        HTTPStatus.CONFLICT, "This was already decided, so your decision was not taken. What was decided stands below."
    ),
    "expired": Notice(
        HTTPStatus.CONFLICT, "The deadline has passed, so your decision was not taken. Nothing was done."
    ),
    "stale": Notice(
        HTTPStatus.CONFLICT,
        "What you decided on is not what waits here now, so your decision was not taken. "
        "Read the action below and decide again.",
    ),
}
_SWITCHED_OFF = Notice(
    HTTPStatus.CONFLICT,
    "It is switched off now: approving would have been refused, and would have ended the request. It waits as before.",
)
_TOO_LONG = Notice(
    HTTPStatus.UNPROCESSABLE_ENTITY,
    f"The reason is too long: at most {MOST_REASON} characters. Nothing was decided yet.",
    about="reason",
)
_WRONG_PASSWORD = Notice(HTTPStatus.FORBIDDEN, "That is not your password. Nothing was decided yet.", about="password")


@router.api_route("/approvals/{approval_id}", methods=READS)
async def approval_page(
    request: Request, services: Services, person: SignedIn, approval_id: str, asked: AskedFor
) -> Response:
    approval = await find_approval(services, person, approval_id)
    if request.method == "GET" and approval.status == "open":
        await services.ledger.of(person.tenant).approvals.viewed(approval, person.username)
    return await _show(request, services, person, approval, asked)


@router.post("/approvals/{approval_id}/decision")
async def decision(
    request: Request, services: Services, person: SignedIn, form: ProtectedForm, approval_id: str, asked: AskedFor
) -> Response:
    approval = await find_approval(services, person, approval_id)
    verdict, reason = form.get("decision"), form.get("reason", "").replace("\r\n", "\n").strip()
    if verdict not in ("approve", "deny"):
        raise PageError(HTTPStatus.UNPROCESSABLE_ENTITY, "That is not a decision", "Nothing was decided.")
    if len(reason) > MOST_REASON:
        return await _show(request, services, person, approval, asked, _TOO_LONG, reason)
    if verdict == "approve" and approval.status == "open" and await switched_off(services, person, approval):
        return await _show(request, services, person, approval, asked, _SWITCHED_OFF)
    proof = await _proof(request, services, person, approval, form) if verdict == "approve" else None
    if isinstance(proof, Notice):
        return await _show(request, services, person, approval, asked, proof)
    decided = await decide_once(
        services,
        person,
        approval_id,
        verdict,
        action_digest=form.get("action_digest", ""),
        reason=reason,
        proof=proof,
    )
    if decided.refused is not None:
        approval = await find_approval(services, person, approval_id)
        return await _show(request, services, person, approval, asked, _notice(decided), reason)
    # The decision stands: whatever is wrong from here on, the page it leads to shows it.
    with suppress(*UNAVAILABLE):
        record = await services.ledger.of(person.tenant).calls.read(approval.request_id)
        await services.waiters.wait(record.workflow_id, _SETTLING_SECONDS)
    return RedirectResponse(f"/approvals/{approval_id}{asked.query()}", HTTPStatus.SEE_OTHER)


async def _proof(
    request: Request, services: Context, person: Person, approval: Approval, form: Fields
) -> Proof | Notice | None:
    """What the person proves of what the approval asks for, or why they do not; None where nothing is to be proven."""
    if approval.proof is None or approval.status != "open" or not may_decide(decider(person), approval):
        return None
    proof = await prove(request, services, person, form.get("password", ""), path_of(approval))
    if isinstance(proof, Proof):
        return proof
    if proof.wait is not None:
        said = f"Too many attempts. Try again in {proof.wait} seconds. Nothing was decided yet."
        return Notice(HTTPStatus.TOO_MANY_REQUESTS, said, wait=proof.wait)
    if not proof.wrong_password:
        return _NOTICES["not_proven"]
    await services.ledger.of(person.tenant).approvals.reject(
        approval.request_id, approval.approval_id, "wrong_password"
    )
    return _WRONG_PASSWORD


def path_of(approval: Approval) -> str:
    """The path of an approval's page."""
    return f"/approvals/{approval.approval_id}"


def _notice(decided: Decided) -> Notice:
    if decided.refused is None or decided.refused not in _NOTICES:
        raise NO_SUCH_APPROVAL
    return _NOTICES[decided.refused]


async def _show(
    request: Request,
    services: Context,
    person: Person,
    approval: Approval,
    asked: Asked,
    notice: Notice | None = None,
    reason: str = "",
) -> Response:
    now = datetime.now(UTC)
    calls = services.ledger.of(person.tenant).calls
    record = await calls.read(approval.request_id)
    events = await calls.events(approval.request_id)
    is_open = approval.status == "open"
    became = None if is_open else outcome(approval, record, events)
    off = await switched_off(services, person, approval) if is_open else []
    response = render(
        request,
        "approval.html",
        person=person,
        status=notice.status if notice else HTTPStatus.OK,
        now=now,
        approval=approval,
        row=row(approval, person, tool_title(services, approval.tool), now),
        consequences=consequences_of(services.catalog, approval),
        fact_groups=fact_groups(approval),
        arguments=argument_fields(approval),
        amendable=bool(amendable(services, approval)),
        off=off_rows(off, person.tenant, services.catalog),
        paused=time_left(approval, off),
        most_untrusted=MOST_UNTRUSTED,
        most_reason=MOST_REASON,
        notice=notice,
        reason=reason,
        given=approval.decisions if is_open else (),
        done_mine=decided_by(approval, person),
        outcome=became,
        symbol=symbol(became.tone) if became else "",
        decision=decision_of(approval),
        story=story(events),
        kept=asked.query(),
        next_waiting=None if is_open else await next_waiting(services, person, asked.filter),
        temporal_url=workflow_url(services, record.workflow_id),
        ways=ways_of(person, services, path_of(approval)),
    )
    if notice is not None and notice.wait is not None:
        response.headers["Retry-After"] = str(notice.wait)
    return response


def time_left(approval: Approval, off: Sequence[SwitchOff]) -> timedelta | None:
    """What is left of the deadline from when the switches that pause it are on again; None where none does. Pure."""
    since = [each.off_at for each in off if each.deadlines == "pause"]
    return max(approval.expires_at - min(since), timedelta(0)) if since else None
