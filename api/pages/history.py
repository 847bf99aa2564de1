"""History: approvals that no longer wait, newest first."""

from dataclasses import dataclass

from fastapi import Request, Response

from api import cursors
from api.context import Services
from api.pages.rendering import render
from api.pages.routing import READS, page_router
from api.pages.story import Tone, decision_of, symbol
from api.pages.views import tool_title
from api.sessions import SignedIn
from schemas.decisions import Approval, HumanDecision

router = page_router()

PAGE = 50
_OUTCOMES: dict[str, tuple[Tone, str]] = {
    "open": ("wait", "Waits"),
    "granted": ("good", "Approved"),
    "denied": ("bad", "Denied"),
    "expired": ("quiet", "Expired"),
    "withdrawn": ("quiet", "Withdrawn"),
    "voided": ("quiet", "No longer valid"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    approval: Approval
    tool: str
    tone: Tone
    symbol: str
    outcome: str
    decision: HumanDecision | None


@router.api_route("/history", methods=READS)
async def history(
    request: Request, services: Services, person: SignedIn, tool: str | None = None, cursor: str | None = None
) -> Response:
    tools = {entry.manifest.name: entry.manifest.title for entry in services.catalog.all() if entry.manifest.writes}
    chosen = tool if tool in tools else None
    closed = await services.ledger.of(person.tenant).approvals.closed(
        person.tenant, after=cursors.decode(cursor), tool=chosen, limit=PAGE + 1
    )
    shown = closed[:PAGE]
    last = shown[-1] if len(closed) > PAGE else None
    return render(
        request,
        "history.html",
        person=person,
        entries=[entry(each, tool_title(services, each.tool)) for each in shown],
        tools=tools,
        chosen=chosen,
        first_page=cursor is None,
        next_cursor=cursors.encode(last.closed_at, last.approval_id) if last and last.closed_at else None,
    )


def entry(approval: Approval, tool: str) -> Entry:
    """What became of an approval, in a line. Pure."""
    tone, label = _OUTCOMES[approval.status]
    return Entry(approval, tool, tone, symbol(tone), label, decision_of(approval))
