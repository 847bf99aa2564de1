"""Operations: what operators have to see to, outcomes that are not known, and calls by status. For operators."""

from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import cast, get_args

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api.context import Context, Services
from api.pages.forms import ProtectedForm
from api.pages.rendering import OPERATOR, render
from api.pages.routing import READS, PageError, page_router
from api.pages.unsettled import Told, alert_told, reason_told
from api.pages.views import tool_title, workflow_url
from api.sessions import SignedIn
from ledger.alerts import Alert
from ledger.principals import Person
from schemas.codes import Status
from schemas.effects import ReviewReason

router = page_router()

_MOST = 100
_MOST_ALERT_ID = 2**63 - 1
_STATUSES: tuple[str, ...] = get_args(Status)
# What ended so has left a diagnostic.
_DIAGNOSED: tuple[Status, ...] = ("refused", "denied", "expired", "failed", "outcome_unknown")
_OPERATORS_ONLY = PageError(
    HTTPStatus.FORBIDDEN, "This page is for operators", "Ask an operator of your organisation if you need it."
)
_NO_ALERT = PageError(HTTPStatus.UNPROCESSABLE_ENTITY, "That is not an alert", "Nothing was changed.")


@dataclass(frozen=True, slots=True)
class AlertRow:
    alert: Alert
    tool: str
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
    counts = await ledger.calls.counts(tenant)
    return render(
        request,
        "operations.html",
        person=person,
        alerts=[_alert_row(services, each) for each in await ledger.alerts.open(tenant, _MOST)],
        reviews=[_review_row(services, each) for each in await ledger.calls.in_review(tenant, _MOST)],
        looked_up=await ledger.calls.looked_up(tenant, _MOST),
        counts={name: counts.get(name, 0) for name in _STATUSES},
        chosen=chosen,
        calls=await ledger.calls.recent(tenant=tenant, status=chosen, limit=_MOST),
        most=_MOST,
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


def operation_of(services: Context, tool: str) -> str:
    """The class of action of a tool, e.g. `refund`; empty for one that is no longer registered."""
    entry = services.catalog.get(tool)
    return entry.manifest.operation if entry else ""


def _alert_row(services: Context, alert: Alert) -> AlertRow:
    return AlertRow(alert, tool_title(services, alert.tool), alert_told(alert.kind, operation_of(services, alert.tool)))


def _review_row(services: Context, call: dict[str, object]) -> ReviewRow:
    tool, reason = str(call["tool"]), cast("ReviewReason", call["review"])
    return ReviewRow(call, tool_title(services, tool), reason_told(reason, operation_of(services, tool)))
