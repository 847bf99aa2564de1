"""The protected diagnostics of one request, for operators; opening them is recorded before anything is shown."""

import re
from http import HTTPStatus
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api.context import Services
from api.pages.diagnosis import tell
from api.pages.operations import only_operators
from api.pages.rendering import render
from api.pages.routing import PageError, page_router
from api.sessions import SignedIn
from schemas.events import DiagnosticOpened

router = page_router()

_REQUEST_ID = re.compile(r"act_[0-9a-f]{32}")
_NOTHING = PageError(
    HTTPStatus.NOT_FOUND,
    "Nothing is kept of that request",
    "It went well, is too old, or was never asked here. The request_id is the one that the agent was given, act_….",
)


@router.get("/operations/diagnostics")
async def find(person: SignedIn, request_id: str = "") -> Response:
    """From the form on the operations page to the page of a request."""
    only_operators(person)
    if not _REQUEST_ID.fullmatch(request_id.strip()):
        raise _NOTHING
    return RedirectResponse(f"/operations/diagnostics/{quote(request_id.strip())}", HTTPStatus.SEE_OTHER)


# Not for HEAD: that would record an opening without one.
@router.get("/operations/diagnostics/{request_id}")
async def diagnostics(request: Request, services: Services, person: SignedIn, request_id: str) -> Response:
    only_operators(person)
    found = []
    if _REQUEST_ID.fullmatch(request_id):
        opened = DiagnosticOpened(principal=person.username, through="page")
        ledger = services.ledger.of(person.tenant)
        found = await ledger.diagnostics.open(request_id, opened, tenant=person.tenant)
    if not found:
        raise _NOTHING
    return render(
        request, "diagnostics.html", person=person, request_id=request_id, accounts=[tell(each) for each in found]
    )
