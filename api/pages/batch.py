"""Several requests at once, of what can be undone alone: each read in full on one page, each decided by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus

from fastapi import Request, Response

from api.context import Context, Services
from api.deciding import Choice, Decided, may_decide
from api.pages.approval_view import MOST_REASON, MOST_UNTRUSTED
from api.pages.consequences import Consequences, consequences_of
from api.pages.fields import FactGroup, Field, argument_fields, fact_groups
from api.pages.forms import Fields, ProtectedForm, text_of
from api.pages.rendering import render
from api.pages.routing import PageError, page_router
from api.pages.story import Tone, symbol
from api.pages.views import decide_once, decided_by, decider, reversible, switched_off, tool_title
from api.sessions import SignedIn
from ledger.principals import Person
from schemas.decisions import Approval
from schemas.ids import is_approval_id

router = page_router()

MOST = 10
"""Requests on one page: as many as somebody still reads."""

_TOO_MANY = PageError(
    HTTPStatus.UNPROCESSABLE_ENTITY,
    "Those are too many at once",
    f"Up to {MOST} can be decided together, so that each of them is read. Nothing was decided; select fewer.",
)
_NONE = PageError(
    HTTPStatus.UNPROCESSABLE_ENTITY, "Nothing is selected", "Nothing was decided. Select in the inbox what to review."
)
_NO_DECISION = PageError(HTTPStatus.UNPROCESSABLE_ENTITY, "That is not a decision", "Nothing was decided.")

_UNTAKEN: dict[str, str] = {
    "not_found": "There is no such request. Nothing was decided.",
    "irreversible": "It cannot be undone, so it is decided on its own page. Nothing was decided.",
    "not_yours": "It is not yours to decide. Nothing was decided.",
    "over_limit": "It is more than is yours to approve. It waits as before.",
    "not_proven": "Approving it takes a proof that it is you: do that on its own page. It waits as before.",
    "claimed": "Somebody else is reading it. Take it over on its page first, or leave it to them.",
    "replaced": "People are asked anew about it. Decide on the new request.",
    "already_decided": "It was decided already. What was decided stands.",
    "expired": "Its deadline has passed. Nothing was done.",
    "stale": "It has changed since you read it. It waits as before; read it again.",
    "switched_off": "It is switched off now: approving would have ended it. It waits as before.",
}
_OTHERWISE = "It was not taken here: decide it on its own page. It waits as before."


@dataclass(frozen=True, slots=True)
class Item:
    """One request as it is read here. `barred`: why it cannot be decided here, else empty."""

    approval: Approval
    tool: str
    consequences: Consequences
    arguments: list[Field]
    facts: list[FactGroup]
    barred: str


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one of them."""

    approval_id: str
    title: str
    tone: Tone
    symbol: str
    words: str


@router.post("/batch")
async def review(request: Request, services: Services, person: SignedIn, form: ProtectedForm) -> Response:
    """Show the selected ones in full. Nothing is decided by it."""
    return await _show(request, services, person, _selected(form))


@router.post("/batch/decision")
async def decision(request: Request, services: Services, person: SignedIn, form: ProtectedForm) -> Response:
    """Decide each on the digest that it was shown with; one that is refused keeps no other back."""
    selected, verdict = _selected(form), form.get("decision")
    reason = text_of(form, "reason")
    if verdict not in ("approve", "deny"):
        raise _NO_DECISION
    if len(reason) > MOST_REASON or (verdict == "deny" and not reason):
        problem = f"The reason is too long: at most {MOST_REASON} characters." if reason else "Say why you deny them."
        return await _show(request, services, person, selected, problem, reason)
    results = [await _decide(services, person, each, verdict, form[each], reason) for each in selected]
    return render(request, "batch_done.html", person=person, results=results, verdict=verdict)


def _selected(form: Fields) -> list[str]:
    """The approvals that the form names, in its order. Raises PageError for none and for too many."""
    selected = [name for name in form if is_approval_id(name)]
    if not selected:
        raise _NONE
    if len(selected) > MOST:
        raise _TOO_MANY
    return selected


async def _show(
    request: Request,
    services: Context,
    person: Person,
    selected: Sequence[str],
    problem: str = "",
    reason: str = "",
) -> Response:
    approvals = services.ledger.of(person.tenant).approvals
    found = [each for each in [await approvals.get(person.tenant, name) for name in selected] if each is not None]
    items = [_item(services, person, each) for each in found]
    for each in items:
        if not each.barred:
            await approvals.viewed(each.approval, person.username)
    return render(
        request,
        "batch.html",
        person=person,
        status=HTTPStatus.UNPROCESSABLE_ENTITY if problem else HTTPStatus.OK,
        items=[each for each in items if not each.barred],
        barred=[each for each in items if each.barred],
        missing=len(selected) - len(found),
        most_reason=MOST_REASON,
        most_untrusted=MOST_UNTRUSTED,
        problem=problem,
        reason=reason,
    )


def _item(services: Context, person: Person, approval: Approval) -> Item:
    """Pure, apart from the clock."""
    barred = ""
    if not reversible(services, approval.tool):
        barred = "irreversible"
    elif not may_decide(decider(person), approval, "deny"):
        barred = "not_yours"
    elif approval.status != "open" or decided_by(approval, person):
        barred = "already_decided"
    elif approval.expires_at <= datetime.now(UTC):
        barred = "expired"
    return Item(
        approval,
        tool_title(services, approval.tool),
        consequences_of(services.catalog, approval),
        argument_fields(approval),
        fact_groups(approval),
        _UNTAKEN[barred] if barred else "",
    )


async def _decide(
    services: Context, person: Person, approval_id: str, verdict: Choice, digest: str, reason: str
) -> Result:
    approval = await services.ledger.of(person.tenant).approvals.get(person.tenant, approval_id)
    if approval is None:
        return _result(approval_id, approval_id, "not_found")
    if not reversible(services, approval.tool):
        return _result(approval_id, approval.title, "irreversible")
    if verdict == "approve" and approval.status == "open" and await switched_off(services, person, approval):
        return _result(approval_id, approval.title, "switched_off")
    decided = await decide_once(services, person, approval_id, verdict, action_digest=digest, reason=reason)
    return _result(approval_id, approval.title, decided)


def _result(approval_id: str, title: str, became: Decided | str) -> Result:
    """Pure."""
    tone: Tone = "bad"
    if isinstance(became, str):
        words = _UNTAKEN[became]
    elif became.status == "approved":
        tone, words = "good", "Approved, and being carried out."
    elif became.status == "denied":
        tone, words = "good", "Denied. Nothing is done."
    elif became.status == "waiting_for_second":
        tone, words = "wait", "Approved by you. Another person has to approve it as well."
    else:
        words = _UNTAKEN.get(became.refused or "", _OTHERWISE)
    return Result(approval_id, title, tone, symbol(tone), words)
