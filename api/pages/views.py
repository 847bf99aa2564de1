"""What several pages show of an approval."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

from api.context import Context
from api.deciding import Decider, may_decide
from ledger.principals import Person
from schemas.decisions import Approval

SOON = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Row:
    """One waiting approval, for one person."""

    approval: Approval
    tool: str
    mine: bool
    soon: bool
    overdue: bool


def decider(person: Person) -> Decider:
    return Decider(person.tenant, person.username, person.roles)


def row(approval: Approval, person: Person, tool: str, now: datetime) -> Row:
    """Pure."""
    left = approval.expires_at - now
    return Row(
        approval,
        tool,
        mine=may_decide(decider(person), approval),
        soon=timedelta(0) < left < SOON,
        overdue=left <= timedelta(0),
    )


def tool_title(services: Context, name: str) -> str:
    entry = services.catalog.get(name)
    return entry.manifest.title if entry else name


def workflow_url(services: Context, workflow_id: str) -> str | None:
    """Where Temporal's own web interface shows a call's workflow."""
    if services.temporal_ui_url is None:
        return None
    place = f"namespaces/{quote(services.namespace, safe='')}/workflows/{quote(workflow_id, safe='')}"
    return f"{services.temporal_ui_url.rstrip('/')}/{place}"
