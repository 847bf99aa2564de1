"""Operations: calls by status, and first those whose outcome is not known. For operators."""

from functools import partial
from http import HTTPStatus
from typing import get_args

from fastapi import Request, Response

from api.context import Services
from api.pages.rendering import OPERATOR, render
from api.pages.routing import READS, PageError, page_router
from api.pages.views import workflow_url
from api.sessions import SignedIn
from ledger.principals import Person
from schemas.codes import Status

router = page_router()

_MOST = 100
_STATUSES: tuple[str, ...] = get_args(Status)
# What ended so has left a diagnostic.
_DIAGNOSED: tuple[Status, ...] = ("refused", "denied", "expired", "failed", "outcome_unknown")
_OPERATORS_ONLY = PageError(
    HTTPStatus.FORBIDDEN, "This page is for operators", "Ask an operator of your organisation if you need it."
)


def only_operators(person: Person) -> None:
    """Raises PageError for anyone else."""
    if OPERATOR not in person.roles:
        raise _OPERATORS_ONLY


@router.api_route("/operations", methods=READS)
async def operations(request: Request, services: Services, person: SignedIn, status: str | None = None) -> Response:
    only_operators(person)
    calls = services.ledger.of(person.tenant).calls
    chosen = status if status in _STATUSES else None
    counts = await calls.counts(person.tenant)
    return render(
        request,
        "operations.html",
        person=person,
        counts={name: counts.get(name, 0) for name in _STATUSES},
        chosen=chosen,
        unknown=await calls.recent(tenant=person.tenant, status="outcome_unknown", limit=_MOST),
        calls=await calls.recent(tenant=person.tenant, status=chosen, limit=_MOST),
        most=_MOST,
        diagnosed=_DIAGNOSED,
        workflow_url=partial(workflow_url, services),
    )
