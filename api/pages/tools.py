"""The matrix of tools: what each can reach and undo, what stands before it, and how that did. For operators."""

from datetime import UTC, datetime

from fastapi import Request, Response

from api.context import Services
from api.inventory import last_30_days, measured
from api.pages.operations import in_force, only_operators
from api.pages.rendering import render
from api.pages.routing import READS, page_router
from api.sessions import SignedIn

router = page_router()


@router.api_route("/tools", methods=READS)
async def tools(request: Request, services: Services, person: SignedIn) -> Response:
    only_operators(person)
    span = last_30_days(datetime.now(UTC))
    policy, unusable = await in_force(services)
    lines = await measured(services.ledger, services.catalog, policy, span, person.tenant)
    version = policy.version if policy else ""
    return render(request, "tools.html", person=person, lines=lines, policy=version, unusable=unusable)
