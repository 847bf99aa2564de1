"""Saying on an approval's page that one is reading it, taking it over from somebody else, and letting it go."""

from http import HTTPStatus

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api.claiming import NotClaimed, claim, release
from api.context import Services
from api.pages.approval_view import Notice, show
from api.pages.forms import ProtectedForm
from api.pages.routing import page_router
from api.pages.views import NO_SUCH_APPROVAL, decider, find_approval
from api.pages.waiting import AskedFor
from api.sessions import SignedIn

router = page_router()

_HEADLINE = "Not claimed."
_NOTICES: dict[NotClaimed, Notice] = {
    "not_yours": Notice(HTTPStatus.FORBIDDEN, "This is not yours to decide.", headline=_HEADLINE),
    "claimed": Notice(HTTPStatus.CONFLICT, "Somebody else was first.", headline=_HEADLINE),
    "already_decided": Notice(HTTPStatus.CONFLICT, "It no longer waits for anyone.", headline=_HEADLINE),
}


@router.post("/approvals/{approval_id}/claim")
async def claim_it(
    request: Request, services: Services, person: SignedIn, form: ProtectedForm, approval_id: str, asked: AskedFor
) -> Response:
    approval = await find_approval(services, person, approval_id)
    claimed = await claim(services, decider(person), approval_id, take_over=form.get("take_over") == "yes")
    if claimed.refused is None:
        return RedirectResponse(f"/approvals/{approval_id}{asked.query()}", HTTPStatus.SEE_OTHER)
    if claimed.refused not in _NOTICES:
        raise NO_SUCH_APPROVAL
    approval = await find_approval(services, person, approval_id)
    return await show(request, services, person, approval, asked, _NOTICES[claimed.refused])


@router.post("/approvals/{approval_id}/release")
async def release_it(
    services: Services, person: SignedIn, form: ProtectedForm, approval_id: str, asked: AskedFor
) -> Response:
    await find_approval(services, person, approval_id)
    await release(services, decider(person), approval_id)
    return RedirectResponse(f"/approvals/{approval_id}{asked.query()}", HTTPStatus.SEE_OTHER)
