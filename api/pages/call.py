"""The story of one call: every event with its time, who did it, its hash and its seal, and whether the chain holds."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from fastapi import Request, Response

from api.context import Context, Services
from api.pages.fields import FactGroup, fact_groups
from api.pages.links import trace_link
from api.pages.rendering import OPERATOR, render
from api.pages.routing import READS, PageError, page_router
from api.pages.story import Happened, story
from api.pages.views import find_approval, tool_title, workflow_url
from api.sessions import SignedIn
from ledger.calls import Outline, UnknownCall
from ledger.chain import EventRow, break_in
from ledger.principals import Person
from schemas.events import CallDecided, Recorded

router = page_router()

_REQUEST_ID = re.compile(r"act_[0-9a-f]{32}")
_NO_SUCH_CALL = PageError(
    HTTPStatus.NOT_FOUND, "There is no such call", "The link may be incomplete. What was decided is in the history."
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of the story. `seal`: the number of the seal that it is in; None while it is not sealed."""

    n: int
    told: Happened
    hash: str
    seal: int | None


@router.api_route("/calls/{request_id}", methods=READS)
async def call_page(request: Request, services: Services, person: SignedIn, request_id: str) -> Response:
    """Whoever may see its approval sees it; of a call that nobody was asked about, operators."""
    outline, rows = await _read(services, person, request_id)
    calls = services.ledger.of(person.tenant).calls
    broken = break_in(rows, outline.head)
    # An altered body cannot be opened.
    events = [] if broken else await calls.events(request_id)
    call = None if outline.erased else (await calls.read(request_id)).details.call
    trace_id = call.trace_id if call else None
    return render(
        request,
        "call.html",
        person=person,
        call=outline,
        tool=tool_title(services, outline.tool),
        decided=next((event for _, event in events if isinstance(event, CallDecided)), None),
        facts=[] if outline.erased else await _facts(services, person, outline),
        entries=_entries(events, await calls.seals(request_id)),
        broken=broken,
        trace_id=trace_id,
        trace_url=trace_link(services.trace_url, trace_id),
        temporal_url=workflow_url(services, outline.workflow_id),
    )


async def _read(services: Context, person: Person, request_id: str) -> tuple[Outline, list[EventRow]]:
    """The call, and its events as they are stored, of one moment. Raises PageError."""
    calls = services.ledger.of(person.tenant).calls
    if _REQUEST_ID.fullmatch(request_id) is None:
        raise _NO_SUCH_CALL
    try:
        outline = await calls.outline(request_id)
        if outline.approval_id is None and OPERATOR not in person.roles:
            raise _NO_SUCH_CALL
        while True:
            rows = await calls.rows(request_id)
            after = await calls.outline(request_id)
            if after.head == outline.head:
                return outline, rows
            outline = after
    except UnknownCall:
        raise _NO_SUCH_CALL from None


async def _facts(services: Context, person: Person, outline: Outline) -> Sequence[FactGroup]:
    """What an approval was asked on, as its page shows it; nothing for a call that nobody was asked about."""
    if outline.approval_id is None:
        return []
    return fact_groups(await find_approval(services, person, outline.approval_id))


def _entries(events: Sequence[tuple[EventRow, Recorded]], seals: dict[int, int]) -> list[Entry]:
    return [
        Entry(row.n, told, row.hash.hex(), seals.get(row.n))
        for (row, _), told in zip(events, story(events), strict=True)
    ]
