"""One approval, and the decision about it."""

from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api.context import Context, Services
from api.deciding import Decided, Refused, may_decide
from api.pages.approval_view import MOST_REASON, Notice, path_of, show
from api.pages.forms import Fields, ProtectedForm, text_of
from api.pages.routing import READS, PageError, page_router
from api.pages.views import NO_SUCH_APPROVAL, decide_once, decider, find_approval, switched_off
from api.pages.waiting import AskedFor
from api.proving import attempt_succeeded, prove, prove_with_passkey
from api.sessions import SignedIn
from ledger.database import UNAVAILABLE
from ledger.principals import Person
from schemas.decisions import Approval
from schemas.proofs import Proof

router = page_router()

_SETTLING_SECONDS = 2


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
    "replaced": Notice(
        HTTPStatus.CONFLICT,
        "People are asked anew about this, so your decision was not taken. What changed stands below: decide on the "
        "new request.",
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
    return await show(request, services, person, approval, asked)


@router.post("/approvals/{approval_id}/decision")
async def decision(
    request: Request, services: Services, person: SignedIn, form: ProtectedForm, approval_id: str, asked: AskedFor
) -> Response:
    approval = await find_approval(services, person, approval_id)
    verdict, reason = form.get("decision"), text_of(form, "reason")
    if verdict not in ("approve", "deny"):
        raise PageError(HTTPStatus.UNPROCESSABLE_ENTITY, "That is not a decision", "Nothing was decided.")
    if len(reason) > MOST_REASON:
        return await show(request, services, person, approval, asked, replace(_TOO_LONG, typed=reason))
    if verdict == "approve" and approval.status == "open" and await switched_off(services, person, approval):
        return await show(request, services, person, approval, asked, _SWITCHED_OFF)
    proof = await _proof(request, services, person, approval, form) if verdict == "approve" else None
    if isinstance(proof, Notice):
        return await show(request, services, person, approval, asked, proof)
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
        return await show(request, services, person, approval, asked, replace(_notice(decided), typed=reason))
    if proof is not None:
        attempt_succeeded(request, services, person)
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
    if "passkey" in form:
        proof = await prove_with_passkey(request, services, person, form["passkey"], form.get("nonce", ""))
    else:
        proof = await prove(request, services, person, form.get("password", ""), path_of(approval))
    if isinstance(proof, Proof):
        return proof
    if proof.wait is not None:
        said = f"Too many attempts. Try again in {proof.wait} seconds. Nothing was decided yet."
        return Notice(HTTPStatus.TOO_MANY_REQUESTS, said, wait=proof.wait)
    if proof.wrong is not None:
        because = "wrong_password" if proof.wrong == "password" else "passkey_not_valid"
        approvals = services.ledger.of(person.tenant).approvals
        await approvals.reject(approval.request_id, approval.approval_id, because)
    return _WRONG_PASSWORD if proof.wrong == "password" else _NOTICES["not_proven"]


def _notice(decided: Decided) -> Notice:
    if decided.refused is None or decided.refused not in (*_NOTICES, "claimed"):
        raise NO_SUCH_APPROVAL
    if decided.claimed_by is not None:
        return Notice(
            HTTPStatus.CONFLICT,
            f"{decided.claimed_by.display_name} is reading this, so your decision was not taken. "
            "Take it over first, or leave it to them.",
        )
    return _NOTICES[decided.refused]
