"""What several pages show of an approval."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from urllib.parse import quote

from api.context import Context
from api.deciding import Decider, may_decide, why_not
from api.pages.routing import PageError
from ledger.people import reach_of
from ledger.principals import Person
from schemas.decisions import Approval
from schemas.ids import is_approval_id
from schemas.money import Money

SOON = timedelta(hours=1)
NO_SUCH_APPROVAL = PageError(
    HTTPStatus.NOT_FOUND, "There is no such approval", "The link may be incomplete. What waits is in the inbox."
)


@dataclass(frozen=True, slots=True)
class Row:
    """One waiting approval, for one person. `mine`: they may deny it at least; `beyond` says why not approve it;
    `done`: they approved it, and somebody else has to."""

    approval: Approval
    tool: str
    mine: bool
    soon: bool
    overdue: bool
    beyond: str = ""
    done: bool = False


def decider(person: Person) -> Decider:
    return Decider.of(person)


async def find_approval(services: Context, person: Person, approval_id: str) -> Approval:
    """An approval of the person's tenant. Raises NO_SUCH_APPROVAL."""
    found = None
    if is_approval_id(approval_id):
        found = await services.ledger.of(person.tenant).approvals.get(person.tenant, approval_id)
    if found is None:
        raise NO_SUCH_APPROVAL
    return found


def row(approval: Approval, person: Person, tool: str, now: datetime) -> Row:
    """Pure."""
    left = approval.expires_at - now
    return Row(
        approval,
        tool,
        mine=may_decide(decider(person), approval, "deny"),
        soon=timedelta(0) < left < SOON,
        overdue=left <= timedelta(0),
        beyond=_beyond(approval, person),
        done=decided_by(approval, person),
    )


def decided_by(approval: Approval, person: Person) -> bool:
    """Whether a decision on it is theirs."""
    return any(each.approver == person.username for each in approval.decisions)


def _beyond(approval: Approval, person: Person) -> str:
    if why_not(decider(person), approval) != "over_limit":
        return ""
    reach = reach_of(person.standing, approval, datetime.now(UTC))
    yours = "This amount is not yours to approve"
    if reach is not None:
        yours = f"Up to {Money(amount=reach[0], currency=reach[1])} is yours to approve"
    return f"{yours}; this needs somebody with a higher limit."


def tool_title(services: Context, name: str) -> str:
    entry = services.catalog.get(name)
    return entry.manifest.title if entry else name


def workflow_url(services: Context, workflow_id: str) -> str | None:
    """Where Temporal's own web interface shows a call's workflow."""
    if services.temporal_ui_url is None:
        return None
    place = f"namespaces/{quote(services.namespace, safe='')}/workflows/{quote(workflow_id, safe='')}"
    return f"{services.temporal_ui_url.rstrip('/')}/{place}"
