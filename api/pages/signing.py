"""Approving with a passkey: the page on which the browser has it sign the very decision."""

from http import HTTPStatus

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api.context import Services
from api.deciding import may_decide
from api.pages.forms import ProtectedForm
from api.pages.rendering import render
from api.pages.routing import page_router
from api.pages.views import decider, find_approval
from api.passkeys import options_to_sign, relying_party
from api.sessions import SignedIn
from ledger.assertions import challenge_of
from ledger.passkeys import approving

router = page_router()


@router.post("/approvals/{approval_id}/passkey")
async def sign(
    request: Request, services: Services, person: SignedIn, form: ProtectedForm, approval_id: str
) -> Response:
    """Make a challenge of what was shown. The decision itself is sent from the page that this answers with."""
    approval = await find_approval(services, person, approval_id)
    page, party = f"/approvals/{approval_id}", relying_party(services.public_url)
    passkeys = services.ledger.of(person.tenant).passkeys
    known = await passkeys.of(person.tenant, person.username)
    shown = form.get("action_digest", "") == approval.action_digest
    if not (party and known and shown and approval.status == "open" and may_decide(decider(person), approval)):
        # It shows why not.
        return RedirectResponse(page, HTTPStatus.SEE_OTHER)
    nonce = await passkeys.new_nonce(person.tenant, person.username, approving(approval_id))
    challenge = challenge_of(
        approval_id=approval_id,
        action_digest=approval.action_digest,
        policy_version=approval.policy_version,
        verdict="approve",
        approver=person.username,
        nonce=nonce,
    )
    return render(
        request,
        "passkey.html",
        person=person,
        kind="get",
        action=f"{page}/decision",
        options=options_to_sign(party, challenge, known),
        fields={
            "csrf": person.csrf,
            "nonce": nonce,
            "decision": "approve",
            "action_digest": approval.action_digest,
        },
        title=approval.title,
        sentence="Your passkey signs that you approve exactly this, and nothing else.",
        back=page,
    )
