"""Having a notice sent again that people were not told. For operators."""

from http import HTTPStatus

from fastapi import Response
from fastapi.responses import RedirectResponse

from api.context import Services
from api.pages.forms import ProtectedForm
from api.pages.operations import only_operators
from api.pages.routing import PageError, page_router
from api.sessions import SignedIn
from schemas.ids import is_notice_id

router = page_router()

_NO_NOTICE = PageError(HTTPStatus.UNPROCESSABLE_ENTITY, "That is not a notice", "Nothing was changed.")


@router.post("/operations/notices")
async def send_again(services: Services, person: SignedIn, form: ProtectedForm) -> Response:
    """Have one that was given up sent again. Of one that was sent meanwhile nothing changes."""
    only_operators(person)
    notice_id = form.get("again", "")
    if not is_notice_id(notice_id):
        raise _NO_NOTICE
    await services.ledger.of(person.tenant).notices.retry(notice_id, person.tenant)
    return RedirectResponse("/operations#notices", HTTPStatus.SEE_OTHER)
