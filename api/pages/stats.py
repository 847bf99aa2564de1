"""How people decide: whether the rules ask about the right things, and whether people keep up."""

from dataclasses import dataclass

from fastapi import Request, Response

from api.context import Services
from api.pages.rendering import render
from api.pages.routing import READS, page_router
from api.pages.views import tool_title
from api.sessions import SignedIn
from ledger.approvals import RuleRecord

router = page_router()

DAYS = 90
VOLUME_DAYS = 14
# Fewer decisions than this say nothing about a rule.
ENOUGH = 20
NEARLY_ALWAYS = 95
OFTEN_NOT = 75


@dataclass(frozen=True, slots=True)
class Line:
    """One rule of one tool. `percent` of its decisions were approvals, rounded down; `band` says what that means."""

    tool: str
    record: RuleRecord
    decided: int
    percent: int | None
    band: str


def line(record: RuleRecord, tool: str) -> Line:
    """Pure."""
    decided = record.approved + record.denied
    percent = record.approved * 100 // decided if decided else None
    return Line(tool, record, decided, percent, _band(record.approved, decided))


def _band(approved: int, decided: int) -> str:
    if decided < ENOUGH:
        return "too few decisions to say"
    if approved * 100 > NEARLY_ALWAYS * decided:
        return "nearly always approved: the rule may ask too often"
    if approved * 100 < OFTEN_NOT * decided:
        return "often denied: look at what the agents ask for"
    return "as it should be"


@router.api_route("/stats", methods=READS)
async def stats(request: Request, services: Services, person: SignedIn) -> Response:
    approvals = services.ledger.of(person.tenant).approvals
    records = await approvals.by_rule(person.tenant, DAYS)
    volume = await approvals.volume(person.tenant, VOLUME_DAYS)
    return render(
        request,
        "stats.html",
        person=person,
        lines=[line(record, tool_title(services, record.tool)) for record in records],
        queue=await approvals.queue(person.tenant),
        volume=volume,
        busiest=max(count for _, count in volume),
        days=DAYS,
        enough=ENOUGH,
        nearly_always=NEARLY_ALWAYS,
        often_not=OFTEN_NOT,
    )
