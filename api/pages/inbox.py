"""The inbox: what waits for a decision, oldest deadline first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api import cursors
from api.context import Context, Services
from api.pages.batch import MOST
from api.pages.history import Entry, entry
from api.pages.rendering import render
from api.pages.routing import READS, Text, page_router
from api.pages.views import Row, reversible, row, tool_title
from api.pages.waiting import Asked, AskedFor, whose
from api.sessions import SignedIn
from ledger.inbox import Counts, Flood
from ledger.principals import Person
from schemas.decisions import Approval
from schemas.ids import is_approval_id, is_request_id

router = page_router()

PAGE = 25
_MOST_FOUND = 50
_MOST_ALARMS = 3
_Cursor = tuple[datetime, str]


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice of a part of the filter: where it leads, and how many wait there."""

    label: str
    href: str
    count: int
    chosen: bool


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the filter that is chosen by links."""

    name: str
    choices: tuple[Choice, ...]


@router.api_route("/", methods=READS)
async def inbox(
    request: Request,
    services: Services,
    person: SignedIn,
    asked: AskedFor,
    cursor: str | None = None,
    find: Text = "",
) -> Response:
    wanted = find.strip()
    found = await _find(services, person, wanted) if wanted else []
    if len(found) == 1:
        return RedirectResponse(f"/approvals/{found[0].approval_id}", HTTPStatus.SEE_OTHER)
    own, now, after = services.ledger.of(person.tenant).inbox, datetime.now(UTC), cursors.decode(cursor)
    counts = await own.counts(person.tenant, asked.filter, whose(person))
    # Whoever asks for one agent's wants to see each of them.
    floods = () if asked.filter.agent else tuple(each for each in counts.floods if each.many)
    waiting = await own.waiting(
        person.tenant,
        asked.filter,
        whose(person),
        after=after,
        limit=PAGE + 1,
        without=tuple(each.agent for each in floods),
    )
    shown = waiting[:PAGE]
    last = shown[-1] if len(waiting) > PAGE else None
    until = (last.expires_at, last.approval_id) if last else None
    rows = [
        row(each, person, tool_title(services, each.tool), now, reversible=reversible(services, each.tool))
        for each in shown
    ]
    return render(
        request,
        "inbox.html",
        person=person,
        now=now,
        rows=_listed(rows, floods, after, until),
        selectable=any(each.selectable for each in rows),
        most=MOST,
        counts=counts,
        alarms=counts.floods[:_MOST_ALARMS],
        more_alarms=len(counts.floods[_MOST_ALARMS:]),
        parts=_parts(services, counts, asked),
        asked=asked,
        first_page=cursor is None,
        next_cursor=cursors.encode(*until) if until else None,
        wanted=wanted,
        found=[_entry(services, each) for each in found],
    )


async def _find(services: Context, person: Person, wanted: str) -> list[Approval]:
    """Approvals of the person's tenant: the one with this id, the newest of this request, or those about this order."""
    own = services.ledger.of(person.tenant)
    if is_request_id(wanted):
        approval_id = await own.approvals.of_request(person.tenant, wanted)
    else:
        approval_id = wanted if is_approval_id(wanted) else None
    if approval_id is not None:
        approval = await own.approvals.get(person.tenant, approval_id)
        return [approval] if approval else []
    return await own.inbox.of_order(person.tenant, wanted, _MOST_FOUND)


def _entry(services: Context, approval: Approval) -> Entry:
    return entry(approval, tool_title(services, approval.tool))


def _listed(
    rows: Sequence[Row], floods: Sequence[Flood], after: _Cursor | None, until: _Cursor | None
) -> list[Row | Flood]:
    """The rows of a page with the agents that have too many in one line each, at their earliest deadline. Pure."""
    placed: list[tuple[_Cursor, Row | Flood]] = [((r.approval.expires_at, r.approval.approval_id), r) for r in rows]
    for each in floods:
        if each.earliest is not None:
            place = (each.earliest, "")
            if (after is None or place > after) and (until is None or place <= until):
                placed.append((place, each))
    return [each for _, each in sorted(placed, key=lambda pair: pair[0])]


def _parts(services: Context, counts: Counts, asked: Asked) -> list[Part]:
    """Pure."""
    chosen = asked.filter
    whose_ = (
        Choice("Mine to decide", f"/{asked.query(mine=None if chosen.mine else 'yes')}", counts.mine, chosen.mine),
        Choice(
            "Waits for a second person",
            f"/{asked.query(second=None if chosen.second else 'yes')}",
            counts.second,
            chosen.second,
        ),
    )
    titles = {tool: tool_title(services, tool) for tool in sorted({*counts.tools, *filter(None, [chosen.tool])})}
    parts = [
        Part("Show only", whose_),
        _part("Action", "tool", titles, counts.tools, sum(counts.tools.values()), asked),
    ]
    groups = {name: name for name in sorted({*counts.groups, *filter(None, [chosen.group])})}
    if len(groups) > 1 or chosen.group:
        # One that two groups may decide is counted for both.
        parts.append(_part("Group", "group", groups, counts.groups, counts.of_any_group, asked))
    return parts


def _part(name: str, field: str, labels: dict[str, str], counts: dict[str, int], of_any: int, asked: Asked) -> Part:
    chosen = asked.fields.get(field)
    everything = Choice("All", f"/{asked.query(**{field: None})}", of_any, chosen is None)
    each = (
        Choice(label, f"/{asked.query(**{field: value})}", counts.get(value, 0), value == chosen)
        for value, label in labels.items()
    )
    return Part(name, (everything, *each))
