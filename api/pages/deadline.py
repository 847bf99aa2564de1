"""More time for an approval that waits: a form on its page."""

from dataclasses import replace
from datetime import datetime
from http import HTTPStatus

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api.context import Services
from api.extending import NotExtended, extend
from api.pages.approval_view import MOST_REASON, Notice, show
from api.pages.forms import ProtectedForm, text_of
from api.pages.routing import PageError, page_router
from api.pages.views import NO_SUCH_APPROVAL, decider, find_approval
from api.pages.waiting import AskedFor
from api.sessions import SignedIn

router = page_router()

_HEADLINE = "No more time was given."
_NO_TIME = PageError(HTTPStatus.UNPROCESSABLE_ENTITY, "That is not a time", "Nothing was changed.")


def _notice(status: HTTPStatus, sentence: str, *, about_reason: bool = False) -> Notice:
    return Notice(status, sentence, "more-reason" if about_reason else "", _HEADLINE)


_TOO_LONG = _notice(
    HTTPStatus.UNPROCESSABLE_ENTITY, f"The reason is too long: at most {MOST_REASON} characters.", about_reason=True
)
_NOTICES: dict[NotExtended, Notice] = {
    "not_yours": _notice(HTTPStatus.FORBIDDEN, "This is not yours to decide, so its deadline is not yours to move."),
    "reason_required": _notice(HTTPStatus.UNPROCESSABLE_ENTITY, "Say why it needs more time.", about_reason=True),
    "already_decided": _notice(HTTPStatus.CONFLICT, "This was already decided. What was decided stands below."),
    "expired": _notice(HTTPStatus.CONFLICT, "The deadline has passed. Nothing was done."),
    "not_later": _notice(HTTPStatus.CONFLICT, "It has as much time already: its deadline is below."),
    "too_far": _notice(HTTPStatus.UNPROCESSABLE_ENTITY, "The deadline can be at most 7 days away."),
}


@router.post("/approvals/{approval_id}/deadline")
async def deadline(
    request: Request, services: Services, person: SignedIn, form: ProtectedForm, approval_id: str, asked: AskedFor
) -> Response:
    """Move the deadline to the moment that was chosen."""
    approval = await find_approval(services, person, approval_id)
    until, reason = _moment(form.get("until", "")), text_of(form, "reason")
    if len(reason) > MOST_REASON:
        return await show(request, services, person, approval, asked, replace(_TOO_LONG, typed=reason))
    extended = await extend(services, decider(person), approval_id, until, reason=reason)
    if extended.refused is None:
        return RedirectResponse(f"/approvals/{approval_id}{asked.query()}", HTTPStatus.SEE_OTHER)
    if extended.refused not in _NOTICES:
        raise NO_SUCH_APPROVAL
    approval = await find_approval(services, person, approval_id)
    return await show(request, services, person, approval, asked, replace(_NOTICES[extended.refused], typed=reason))


def _moment(text: str) -> datetime:
    """Raises PageError for what is no time with a zone, in whole seconds."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _NO_TIME from None
    if moment.tzinfo is None or moment.microsecond:
        raise _NO_TIME
    return moment
