"""Policies: what is in force and was, and changes that people propose and agree to. For those who may change them."""

from dataclasses import dataclass
from http import HTTPStatus

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from activities.policies import checked_stored, opened, terms_of_change
from api.changing import MOST_REASON, Changing
from api.context import Context, Services
from api.deciding import Decider
from api.pages.forms import ProtectedForm, text_of
from api.pages.rendering import OPERATOR, render
from api.pages.routing import READS, PageError, page_router
from api.sessions import SignedIn
from ledger.policies import Proposal, Terms
from ledger.principals import Person
from policy.in_force import PolicyUnusable
from policy.problems import PolicyError
from policy.table import Difference, differences
from schemas.ids import is_proposal_id

router = page_router()
PATH = "/policies"
_MOST = 50
_NOT_YOURS = PageError(
    HTTPStatus.FORBIDDEN,
    "This page is for those who may change the policy",
    "Ask an operator of your organisation if you need it.",
)
_NO_PROPOSAL = PageError(HTTPStatus.NOT_FOUND, "There is no such proposal", "It may be the address of another one.")
_NEITHER = PageError(HTTPStatus.UNPROCESSABLE_ENTITY, "Say whether you agree or object", "Nothing was changed.")


@dataclass(frozen=True, slots=True)
class Shown:
    """A proposal, and what it changes of what is in force; why that cannot be told where it cannot."""

    proposal: Proposal
    differences: list[Difference]
    problem: str = ""


def changing(services: Context) -> Changing:
    """What a change of the policy works on."""
    return Changing(services.ledger.policies, services.catalog, services.tenant)


@router.api_route(PATH, methods=READS)
async def policies(request: Request, services: Services, person: SignedIn) -> Response:
    terms, unusable = await _terms(services)
    _only_theirs(services, person, terms)
    ledger = services.ledger.policies
    try:
        decides = (await services.policies.now()).version
    except PolicyUnusable:
        decides = ""
    return render(
        request,
        "policies.html",
        person=person,
        terms=terms,
        unusable=unusable,
        decides=decides,
        published=await ledger.publications(_MOST),
        proposals=await ledger.proposals(_MOST),
        most=_MOST,
    )


@router.api_route(f"{PATH}/{{proposal_id}}", methods=READS)
async def proposal(request: Request, services: Services, person: SignedIn, proposal_id: str) -> Response:
    return await _show(request, services, person, proposal_id)


@router.post(f"{PATH}/{{proposal_id}}")
async def say(
    request: Request, services: Services, person: SignedIn, proposal_id: str, form: ProtectedForm
) -> Response:
    """Agree to exactly what was shown, or object."""
    terms, _ = await _terms(services)
    _only_theirs(services, person, terms)
    vote, reason = form.get("vote", ""), text_of(form, "reason")
    if vote not in ("agree", "object"):
        raise _NEITHER
    done = await changing(services).say(
        Decider.of(person),
        proposal_id,
        form.get("version", ""),
        "agree" if vote == "agree" else "object",
        reason=reason,
    )
    if done.refused is None:
        return RedirectResponse(f"{PATH}/{proposal_id}", HTTPStatus.SEE_OTHER)
    return await _show(request, services, person, proposal_id, because=done.because, reason=reason)


async def _show(
    request: Request, services: Context, person: Person, proposal_id: str, *, because: str = "", reason: str = ""
) -> Response:
    terms, unusable = await _terms(services)
    _only_theirs(services, person, terms)
    found = await services.ledger.policies.proposal(proposal_id) if is_proposal_id(proposal_id) else None
    if found is None:
        raise _NO_PROPOSAL
    who, on = Decider.of(person), changing(services)
    may = terms is not None and found.is_open and on.may(who, terms)
    return render(
        request,
        "policy_proposal.html",
        person=person,
        status=HTTPStatus.CONFLICT if because else HTTPStatus.OK,
        shown=await _shown(services, found),
        terms=terms,
        unusable=unusable,
        may=may,
        has_agreed=terms is not None and await on.has_agreed(who, found, terms),
        because=because,
        reason=reason,
        most_reason=MOST_REASON,
    )


async def _shown(services: Context, found: Proposal) -> Shown:
    try:
        after = checked_stored(found.source, found.version, services.catalog).document
        newest = await services.ledger.policies.in_force()
        before = None if newest is None else opened(newest, services.catalog).document
    except PolicyError as error:
        return Shown(found, [], f"it does not fit the tools here: {error.problems[0]}")
    except PolicyUnusable as problem:
        return Shown(found, [], str(problem))
    return Shown(found, differences(before, after))


async def _terms(services: Context) -> tuple[Terms | None, str]:
    """What a change takes, and why that cannot be told where it cannot."""
    try:
        return await terms_of_change(services.ledger.policies, services.catalog), ""
    except PolicyUnusable as problem:
        return None, str(problem)


def _only_theirs(services: Context, person: Person, terms: Terms | None) -> None:
    """Raises PageError for whoever is neither an operator nor one of those whom a change takes."""
    own = person.tenant == services.tenant
    if not own or person.roles.isdisjoint({OPERATOR, terms.role if terms else OPERATOR}):
        raise _NOT_YOURS
