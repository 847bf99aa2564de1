"""A person's own account: the passkeys that they approve with."""

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
