"""Operations: what operators have to see to, switches, limits and their use, and calls by status. For operators."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import cast, get_args

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api.context import Context, Services
from api.pages.coverage import off_rows
from api.pages.forms import ProtectedForm
from api.pages.limits import amount, limits_of, waiting_limits
from api.pages.rendering import OPERATOR, render
from api.pages.routing import READS, PageError, page_router
from api.pages.text import words
from api.pages.unsettled import Told, alert_told, reason_told
from api.pages.untold import notice_row
from api.pages.views import tool_title, workflow_url
from api.sessions import SignedIn
from ledger.alerts import Alert
from ledger.principals import Person
from ledger.streams import denials_of
from ledger.switches import stream_of
from ledger.vault import Stored
from policy.in_force import PolicyUnusable
from policy.model import Policy
from schemas.codes import Status
from schemas.effects import ReviewReason
from schemas.events import EgressDenied, EgressReason, SwitchChanged
from schemas.switches import EVERYONE, VAULT

router = page_router()

_MOST = 100
_MOST_CHANGES = 10
_CHANGES_SINCE = timedelta(days=30)
_DENIALS_SINCE = timedelta(hours=24)
_MOST_ALERT_ID = 2**63 - 1
# Of calls that have ended; there are ever more.
_COUNTED = 10_000
_STATUSES: tuple[str, ...] = get_args(Status)
# What ended so has left a diagnostic.
_DIAGNOSED: tuple[Status, ...] = ("refused", "denied", "expired", "failed", "outcome_unknown")
_DENIED: dict[EgressReason, str] = {
    "system_not_declared": "the tool's manifest does not name this system",
    "url_not_plain": "the address is not in plain form",
    "origin_not_listed": "the system's settings have another address",
    "address_not_allowed": "the name leads to an address that this system may not have",
}
_OPERATORS_ONLY = PageError(
    HTTPStatus.FORBIDDEN, "This page is for operators", "Ask an operator of your organisation if you need it."
)
_NO_ALERT = PageError(HTTPStatus.UNPROCESSABLE_ENTITY, "That is not an alert", "Nothing was changed.")


@dataclass(frozen=True, slots=True)
class AlertRow:
    alert: Alert
    about: str
    told: Told


@dataclass(frozen=True, slots=True)
class ReviewRow:
    call: dict[str, object]
    tool: str
    told: Told


def only_operators(person: Person) -> None:
    """Raises PageError for anyone else."""
    if OPERATOR not in person.roles:
        raise _OPERATORS_ONLY


@router.api_route("/operations", methods=READS)
async def operations(request: Request, services: Services, person: SignedIn, status: str | None = None) -> Response:
    only_operators(person)
    ledger, tenant = services.ledger.of(person.tenant), person.tenant
    chosen = status if status in _STATUSES else None
    counts = await ledger.calls.counts(tenant, _COUNTED)
    queue = await ledger.approvals.queue(tenant)
    off = await services.ledger.switches.off(tenant)
    policy, unusable = await in_force(services)
    return render(
        request,
        "operations.html",
        person=person,
        alerts=[_alert_row(services, each) for each in await ledger.alerts.open(tenant, _MOST)],
        reviews=[_review_row(services, each) for each in await ledger.calls.in_review(tenant, _MOST)],
        looked_up=await ledger.calls.looked_up(tenant, _MOST),
        switches=off_rows(off, tenant, services.catalog),
        vault_locked=any(each.name == VAULT for each in off),
        credentials=[each for each in await services.ledger.vault.stored() if _serves(each, tenant)],
        turned=await _turned(services, tenant),
        denials=await _denials(services, tenant),
        undelivered=[notice_row(services, each) for each in await ledger.notices.undelivered(tenant, _MOST)],
        stuck=[notice_row(services, each) for each in await ledger.notices.stuck(tenant, _MOST)],
        policy=policy.version if policy else "",
        unusable=unusable,
        limited=await limits_of(services, policy, ledger, tenant) if policy else [],
        waiting=waiting_limits(policy, queue.waiting) if policy else [],
        amount=amount,
        everyone=EVERYONE,
        counts={name: counts.get(name, 0) for name in _STATUSES},
        chosen=chosen,
        calls=await ledger.calls.recent(tenant=tenant, status=chosen, limit=_MOST),
        most=_MOST,
        counted=_COUNTED,
        diagnosed=_DIAGNOSED,
        workflow_url=partial(workflow_url, services),
    )


@router.post("/operations")
async def see(services: Services, person: SignedIn, form: ProtectedForm) -> Response:
    """Mark one alert as seen to. One that somebody has seen to already stays as it is."""
    only_operators(person)
    seen = form.get("seen", "")
    # Checked before it is made a number: the longest one that the database can have has 19 digits.
    if not (seen.isascii() and seen.isdecimal() and len(seen) < 20 and int(seen) <= _MOST_ALERT_ID):
        raise _NO_ALERT
    await services.ledger.of(person.tenant).alerts.see(person.tenant, int(seen), person.username)
    return RedirectResponse("/operations", HTTPStatus.SEE_OTHER)


async def in_force(services: Context) -> tuple[Policy | None, str]:
    """The policy in force, and why it cannot be used where it cannot."""
    try:
        return await services.policies.now(), ""
    except PolicyUnusable as problem:
        return None, str(problem)


def operation_of(services: Context, tool: str) -> str:
    """The class of action of a tool, e.g. `refund`; empty for one that is no longer registered."""
    entry = services.catalog.get(tool)
    return entry.manifest.operation if entry else ""


async def _turned(services: Context, tenant: str) -> list[tuple[datetime, SwitchChanged]]:
    """How the tenant's own switches were turned lately."""
    events = await services.ledger.streams.recent(stream_of(tenant), _CHANGES_SINCE, _MOST_CHANGES)
    return [(at, event) for at, event in events if isinstance(event, SwitchChanged)]


async def _denials(services: Context, tenant: str) -> list[tuple[datetime, EgressDenied, str]]:
    """What the egress guard refused lately, and why in words."""
    events = await services.ledger.streams.recent(denials_of(tenant), _DENIALS_SINCE, _MOST)
    return [(at, event, _DENIED[event.because]) for at, event in events if isinstance(event, EgressDenied)]


def _serves(credential: Stored, tenant: str) -> bool:
    return credential.retired_at is None and credential.tenant in (tenant, EVERYONE)


def _alert_row(services: Context, alert: Alert) -> AlertRow:
    if alert.tool is None or alert.status is None:
        return AlertRow(alert, f"the channel {alert.channel}", alert_told(alert.kind, ""))
    about = f"{tool_title(services, alert.tool)}, now {words(alert.status)}"
    return AlertRow(alert, about, alert_told(alert.kind, operation_of(services, alert.tool)))


def _review_row(services: Context, call: dict[str, object]) -> ReviewRow:
    tool, reason = str(call["tool"]), cast("ReviewReason", call["review"])
    return ReviewRow(call, tool_title(services, tool), reason_told(reason, operation_of(services, tool)))
