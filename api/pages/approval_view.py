"""The page of one approval, put together: what would be done, on which facts, and what can be done about it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Literal

from fastapi import Request, Response

from api.amending import amendable
from api.context import Context
from api.extending import later
from api.pages.consequences import consequences_of
from api.pages.coverage import off_rows
from api.pages.fields import Change, argument_fields, changes, deciding_fields, fact_groups
from api.pages.history import entry
from api.pages.related import Related, refund_tools, related
from api.pages.rendering import render
from api.pages.story import Predecessor, decision_of, outcome, predecessor, story, symbol, voided_on
from api.pages.text import disguises
from api.pages.views import decided_by, decider, find_approval, row, switched_off, tool_title, workflow_url
from api.pages.waiting import Asked, next_waiting
from api.proving import ways_to_approve
from ledger.chain import EventRow
from ledger.principals import Person
from ledger.records import CallRecord
from schemas.decisions import Approval, ClaimedBy
from schemas.events import Recorded
from schemas.switches import SwitchOff

Events = Sequence[tuple[EventRow, Recorded]]

MOST_UNTRUSTED = 2000
MOST_REASON = 2000


@dataclass(frozen=True, slots=True)
class Notice:
    """Why nothing was done of what a form asked for, which `headline` says. `about`: the field to correct, by its id,
    and `typed` what was in it; `wait`: seconds until it helps to send it again."""

    status: HTTPStatus
    sentence: str
    about: Literal["", "reason", "password", "more-reason"] = ""
    headline: str = "Not decided."
    typed: str = ""
    wait: int | None = None


async def show(
    request: Request,
    services: Context,
    person: Person,
    approval: Approval,
    asked: Asked,
    notice: Notice | None = None,
) -> Response:
    """The page, with a notice on it and its status where there is one; of what was erased, what is left."""
    if approval.erased:
        return await _show_erased(request, services, person, approval)
    now = datetime.now(UTC)
    calls = services.ledger.of(person.tenant).calls
    record = await calls.read(approval.request_id)
    events = await calls.events(approval.request_id)
    is_open = approval.status == "open"
    before = await _before(services, person, approval, events)
    became = None if is_open else outcome(approval, record, events)
    off, beside = await _while_open(services, person, approval, now) if is_open else ([], None)
    response = render(
        request,
        "approval.html",
        person=person,
        status=notice.status if notice else HTTPStatus.OK,
        now=now,
        approval=approval,
        row=row(approval, person, tool_title(services, approval.tool), now),
        consequences=consequences_of(services.catalog, approval),
        deciding=deciding_fields(approval),
        fact_groups=fact_groups(approval),
        arguments=argument_fields(approval),
        amendable=bool(amendable(services, approval)),
        off=off_rows(off, person.tenant, services.catalog),
        paused=time_left(approval, off),
        most_untrusted=MOST_UNTRUSTED,
        disguised=any(disguises(each) for each in approval.untrusted.values()),
        most_reason=MOST_REASON,
        notice=notice,
        later=later(approval.expires_at, now) if is_open else [],
        given=approval.decisions if is_open else (),
        done_mine=decided_by(approval, person),
        outcome=became,
        symbol=symbol(became.tone) if became else "",
        decision=decision_of(approval),
        story=story(events),
        before=before,
        beside=beside,
        changed=before.changes if before else await _since(services, person, approval, record, events),
        kept=asked.query(),
        next_waiting=None if is_open else await next_waiting(services, person, asked.filter),
        temporal_url=workflow_url(services, record.workflow_id),
        claim=_claim(approval, person),
        ways=await ways_to_approve(person, services, approval, path_of(approval)),
    )
    if notice is not None and notice.wait is not None:
        response.headers["Retry-After"] = str(notice.wait)
    return response


async def _show_erased(request: Request, services: Context, person: Person, approval: Approval) -> Response:
    """Who decided when, and that it happened: no more of it is there."""
    events = await services.ledger.of(person.tenant).calls.events(approval.request_id)
    return render(
        request,
        "erased.html",
        person=person,
        status=HTTPStatus.OK,
        now=datetime.now(UTC),
        approval=approval,
        tool=tool_title(services, approval.tool),
        entry=entry(approval, tool_title(services, approval.tool)),
        story=story(events),
    )


def path_of(approval: Approval) -> str:
    """The path of an approval's page."""
    return f"/approvals/{approval.approval_id}"


async def _while_open(
    services: Context, person: Person, approval: Approval, now: datetime
) -> tuple[list[SwitchOff], Related]:
    """The switches that are off and cover the call, and what stands beside it."""
    beside = services.ledger.of(person.tenant).related
    off, earlier, alike = await asyncio.gather(
        switched_off(services, person, approval),
        beside.earlier(approval, refund_tools(services.catalog), now),
        beside.alike(approval),
    )
    return off, related(earlier, alike)


@dataclass(frozen=True, slots=True)
class Claim:
    """Who is reading it; `mine`: the person who looks."""

    by: ClaimedBy
    mine: bool


def _claim(approval: Approval, person: Person) -> Claim | None:
    by = approval.claimed_by
    return None if by is None else Claim(by, decider(person).is_one(by.username))


@dataclass(frozen=True, slots=True)
class Before:
    """What an approval took the place of, and what is otherwise since."""

    predecessor: Predecessor
    changes: list[Change]


async def _before(services: Context, person: Person, approval: Approval, events: Events) -> Before | None:
    found = predecessor(approval, events)
    if found is None:
        return None
    first = await services.ledger.of(person.tenant).approvals.get(person.tenant, found.approval_id)
    return Before(found, changes(first, approval.arguments, approval.facts) if first else [])


async def _since(
    services: Context, person: Person, approval: Approval, record: CallRecord, events: Events
) -> list[Change]:
    """What is otherwise since an approval that no longer holds was asked: in the one that took its place, or in the
    facts that it ended on."""
    if approval.status != "voided":
        return []
    if record.approval_id not in (None, approval.approval_id):
        successor = await find_approval(services, person, record.approval_id or "")
        return changes(approval, successor.arguments, successor.facts)
    void = voided_on(approval, events)
    return changes(approval, approval.arguments, void.facts) if void and void.facts else []


def time_left(approval: Approval, off: Sequence[SwitchOff]) -> timedelta | None:
    """What is left of the deadline from when the switches that pause it are on again; None where none does. Pure."""
    since = [each.off_at for each in off if each.deadlines == "pause"]
    return max(approval.expires_at - min(since), timedelta(0)) if since else None
