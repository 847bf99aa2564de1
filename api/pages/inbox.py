"""The inbox: what waits for a decision, oldest deadline first."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api import cursors
from api.context import Services
from api.pages.rendering import render
from api.pages.routing import READS, page_router
from api.pages.views import row, tool_title
from api.sessions import SignedIn

router = page_router()

PAGE = 25
_REQUEST_ID = re.compile(r"act_[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Filter:
    """One choice of the tool filter: how many wait for it."""

    label: str
    tool: str | None
    count: int
    chosen: bool


@router.api_route("/", methods=READS)
async def inbox(
    request: Request,
    services: Services,
    person: SignedIn,
    tool: str | None = None,
    cursor: str | None = None,
    request_id: str | None = None,
) -> Response:
    approvals = services.ledger.of(person.tenant).approvals
    wanted = (request_id or "").strip()
    if _REQUEST_ID.fullmatch(wanted) and (found := await approvals.of_request(person.tenant, wanted)):
        return RedirectResponse(f"/approvals/{found}", HTTPStatus.SEE_OTHER)
    counts = await approvals.counts(person.tenant)
    chosen = tool if tool in counts else None
    waiting = await approvals.waiting(person.tenant, after=cursors.decode(cursor), tool=chosen, limit=PAGE + 1)
    shown, now = waiting[:PAGE], datetime.now(UTC)
    last = shown[-1] if len(waiting) > PAGE else None
    return render(
        request,
        "inbox.html",
        person=person,
        now=now,
        rows=[row(each, person, tool_title(services, each.tool), now) for each in shown],
        total=sum(counts.values()),
        filters=_filters(services, counts, chosen),
        chosen=chosen,
        first_page=cursor is None,
        next_cursor=cursors.encode(last.expires_at, last.approval_id) if last else None,
        wanted=wanted,
    )


def _filters(services: Services, counts: dict[str, int], chosen: str | None) -> list[Filter]:
    everything = Filter("All", None, sum(counts.values()), chosen is None)
    return [everything, *(Filter(tool_title(services, t), t, n, t == chosen) for t, n in counts.items())]
