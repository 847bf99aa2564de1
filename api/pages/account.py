"""A person's own account: the passkeys that they approve with, and who decides for them while they are away."""

from datetime import UTC, date, datetime
from http import HTTPStatus

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from webauthn import base64url_to_bytes
from webauthn.helpers import bytes_to_base64url

from api.context import Context, Services
from api.pages.forms import Fields, ProtectedForm
from api.pages.rendering import render
from api.pages.routing import READS, PageError, page_router
from api.passkeys import RelyingParty, new_key_of, options_to_add, relying_party
from api.proving import Unproven, prove, ways_of
from api.sessions import SignedIn
from ledger.delegations import LONGEST, MOST_REASON, is_span, whole_days
from ledger.passkeys import ADDING, MOST
from ledger.principals import Person

router = page_router()

PATH = "/account"
LONGEST_NAME = 60
_NO_PASSKEYS = PageError(
    HTTPStatus.CONFLICT,
    "There are no passkeys here",
    "Browsers have them only where this service is reached by a name, over an encrypted connection.",
)
_NOT_ADDED = PageError(
    HTTPStatus.FORBIDDEN,
    "The passkey was not added",
    "What the browser sent does not hold, took too long, or was used already. Nothing was changed; begin again.",
)
_TAKEN = PageError(HTTPStatus.CONFLICT, "The passkey was not added", "It is in use already. Nothing was changed.")


@router.api_route(PATH, methods=READS)
async def account_page(request: Request, services: Services, person: SignedIn) -> Response:
    return await _show(request, services, person)


@router.post(f"{PATH}/passkeys")
async def begin_adding(request: Request, services: Services, person: SignedIn, form: ProtectedForm) -> Response:
    """Have the browser make a passkey, once the person has proven that it is them."""
    party, name = _party(services), _name(form)
    passkeys = services.ledger.of(person.tenant).passkeys
    known = await passkeys.of(person.tenant, person.username)
    if not name or len(known) >= MOST:
        said = f"Give it a name of at most {LONGEST_NAME} characters." if not name else f"{MOST} passkeys are the most."
        return await _show(request, services, person, HTTPStatus.UNPROCESSABLE_ENTITY, said)
    refused = await _unproven(request, services, person, form)
    if refused is not None:
        return refused
    nonce = await passkeys.new_nonce(person.tenant, person.username, ADDING)
    return render(
        request,
        "passkey.html",
        person=person,
        kind="create",
        action=f"{PATH}/passkeys/new",
        options=options_to_add(party, person, nonce, known),
        fields={"csrf": person.csrf, "nonce": nonce, "name": name},
        title=f"Add the passkey “{name}”",
        sentence="Your browser asks where it is to be kept, and who you are.",
        back=PATH,
    )


@router.post(f"{PATH}/passkeys/new")
async def finish_adding(services: Services, person: SignedIn, form: ProtectedForm) -> Response:
    party, name, nonce = _party(services), _name(form), form.get("nonce", "")
    passkeys = services.ledger.of(person.tenant).passkeys
    # It was made once they had proven who they are, for them alone.
    taken = await passkeys.take_nonce(person.tenant, person.username, ADDING, nonce)
    made = new_key_of(party, form.get("passkey", ""), nonce) if taken and name else None
    if made is None:
        raise _NOT_ADDED
    added = await passkeys.add(
        person.tenant,
        person.username,
        credential_id=made.credential_id,
        name=name,
        public_key=made.public_key,
        sign_count=made.sign_count,
    )
    if not added:
        raise _TAKEN
    return RedirectResponse(PATH, HTTPStatus.SEE_OTHER)


@router.post(f"{PATH}/passkeys/remove")
async def remove(request: Request, services: Services, person: SignedIn, form: ProtectedForm) -> Response:
    refused = await _unproven(request, services, person, form)
    if refused is not None:
        return refused
    try:
        credential_id = base64url_to_bytes(form.get("credential_id", ""))
    except ValueError:
        credential_id = b""
    await services.ledger.of(person.tenant).passkeys.remove(person.tenant, person.username, credential_id)
    return RedirectResponse(PATH, HTTPStatus.SEE_OTHER)


@router.post(f"{PATH}/delegations")
async def lend(request: Request, services: Services, person: SignedIn, form: ProtectedForm) -> Response:
    """Have somebody decide in their place for a time: whole days, by UTC."""
    delegate, reason, span = form.get("delegate", "").strip().lower(), form.get("reason", "").strip(), _span(form)
    problem = ""
    if span is None or not is_span(*span, datetime.now(UTC)):
        problem = f"The last day is not before the first, not over, and at most {LONGEST.days} days make a time away."
    elif not reason or len(reason) > MOST_REASON:
        problem = f"Say why, in at most {MOST_REASON} characters."
    if problem:
        return await _show(request, services, person, HTTPStatus.UNPROCESSABLE_ENTITY, problem)
    refused = await _unproven(request, services, person, form)
    if refused is not None:
        return refused
    lent = span is not None and await services.ledger.of(person.tenant).delegations.lend(
        person.tenant, person.username, delegate, *span, reason=reason, by=person.username
    )
    if not lent:
        # Whether somebody of that name is another tenant's, nobody is told.
        said = "There is nobody else of that username here who may sign in."
        return await _show(request, services, person, HTTPStatus.UNPROCESSABLE_ENTITY, said)
    return RedirectResponse(PATH, HTTPStatus.SEE_OTHER)


@router.post(f"{PATH}/delegations/revoke")
async def revoke(services: Services, person: SignedIn, form: ProtectedForm) -> Response:
    """End it now. It only takes away, so it takes no proof."""
    delegations = services.ledger.of(person.tenant).delegations
    await delegations.revoke(person.tenant, form.get("delegation_id", ""), delegator=person.username)
    return RedirectResponse(PATH, HTTPStatus.SEE_OTHER)


def _span(form: Fields) -> tuple[datetime, datetime] | None:
    """From the beginning of the first day to the end of the last; None where either is no date."""
    try:
        first, last = (date.fromisoformat(form.get(name, "")) for name in ("first", "last"))
        return whole_days(first, last)
    except (ValueError, OverflowError):
        return None


async def _unproven(request: Request, services: Context, person: Person, form: Fields) -> Response | None:
    """The page that says why it is not proven who they are; None when it is."""
    proof = await prove(request, services, person, form.get("password", ""), PATH)
    if not isinstance(proof, Unproven):
        return None
    if proof.wait is not None:
        said = f"Too many attempts. Try again in {proof.wait} seconds."
        response = await _show(request, services, person, HTTPStatus.TOO_MANY_REQUESTS, said)
        response.headers["Retry-After"] = str(proof.wait)
        return response
    said = "That is not your password." if proof.wrong == "password" else "This takes a proof that it is you."
    return await _show(request, services, person, HTTPStatus.FORBIDDEN, said)


async def _show(
    request: Request, services: Context, person: Person, status: HTTPStatus = HTTPStatus.OK, problem: str = ""
) -> Response:
    party = relying_party(services.public_url)
    passkeys = await services.ledger.of(person.tenant).passkeys.of(person.tenant, person.username)
    return render(
        request,
        "account.html",
        person=person,
        status=status,
        problem=problem,
        ways=ways_of(person, services, PATH),
        passkeys=[(bytes_to_base64url(each.credential_id), each) for each in passkeys],
        most_name=LONGEST_NAME,
        most_reason=MOST_REASON,
        today=datetime.now(UTC).date(),
        delegations=await services.ledger.of(person.tenant).delegations.of(person.tenant, person.username),
        party=party,
        # At a loopback address browsers have none; by its name this machine is another site to them.
        elsewhere=party is not None and request.headers.get("host") != party.origin.partition("://")[2],
    )


def _party(services: Context) -> RelyingParty:
    party = relying_party(services.public_url)
    if party is None:
        raise _NO_PASSKEYS
    return party


def _name(form: Fields) -> str:
    """What the person calls it; empty for none that will do."""
    name = form.get("name", "").strip()
    return name if name.isprintable() and len(name) <= LONGEST_NAME else ""
