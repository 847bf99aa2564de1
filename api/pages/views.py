"""What several pages show of an approval."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from api.context import Context
from api.deciding import Choice, Decided, Decider, decide, may_decide, right_of, why_not
from api.pages.links import workflow_link
from api.pages.routing import PageError
from api.reach import covering
from ledger.people import Right, reach_of
from ledger.principals import Person
from schemas.decisions import Approval
from schemas.ids import is_approval_id
from schemas.money import Money
from schemas.proofs import Proof
from schemas.switches import SwitchOff

SOON = timedelta(hours=1)
NO_SUCH_APPROVAL = PageError(
    HTTPStatus.NOT_FOUND, "There is no such approval", "The link may be incomplete. What waits is in the inbox."
)


@dataclass(frozen=True, slots=True)
class Deciders:
    """The groups whose people may decide now, those who were asked first; and the one that may from `next_at` on."""

    groups: tuple[str, ...]
    next_group: str | None = None
    next_at: datetime | None = None


def deciders(approval: Approval, now: datetime) -> Deciders:
    """Pure."""
    above = approval.groups(now) - {approval.approvers}
    groups = (approval.approvers, *sorted(above))
    if above or approval.escalates_to in (None, approval.approvers) or approval.escalates_at is None:
        return Deciders(groups)
    return Deciders(groups, approval.escalates_to, approval.escalates_at)


@dataclass(frozen=True, slots=True)
class Row:
    """One waiting approval, for one person. `mine`: they may deny it at least; `beyond` says why not approve it;
    `done`: they approved it, and somebody else has to; `selectable`: they may look at it together with others."""

    approval: Approval
    tool: str
    mine: bool
    soon: bool
    overdue: bool
    deciders: Deciders
    beyond: str = ""
    acting_for: str = ""
    """Who is away and lent them the right that they would decide by."""
    done: bool = False
    selectable: bool = False


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


def row(approval: Approval, person: Person, tool: str, now: datetime, *, reversible: bool = False) -> Row:
    """Pure."""
    left = approval.expires_at - now
    mine, done = may_decide(decider(person), approval, "deny"), decided_by(approval, person)
    return Row(
        approval,
        tool,
        mine=mine,
        soon=timedelta(0) < left < SOON,
        overdue=left <= timedelta(0),
        deciders=deciders(approval, now),
        beyond=_beyond(approval, person),
        acting_for=_acting_for(approval, person),
        done=done,
        selectable=reversible and mine and not done and left > timedelta(0),
    )


def _acting_for(approval: Approval, person: Person) -> str:
    """Whose right they would use; empty for their own, and for none."""
    right = right_of(decider(person), approval, "deny")
    return right.lender.display_name if isinstance(right, Right) and right.lender else ""


def decided_by(approval: Approval, person: Person, verdict: Choice | None = None) -> bool:
    """Whether a decision on it is theirs, and is that one where it is given."""
    return any(each.approver == person.username and verdict in (None, each.verdict) for each in approval.decisions)


def _beyond(approval: Approval, person: Person) -> str:
    objection = why_not(decider(person), approval)
    if objection == "counted":
        return "It has been approved by the right that you would use. Another person has to approve it as well."
    if objection != "over_limit":
        return ""
    reach = reach_of(person.standing, approval, datetime.now(UTC))
    yours = "This amount is not yours to approve"
    if reach is not None:
        yours = f"Up to {Money(amount=reach[0], currency=reach[1])} is yours to approve"
    return f"{yours}; this needs somebody with a higher limit."


def reversible(services: Context, tool: str) -> bool:
    """Whether what the tool does can be undone; of one that is no longer registered nobody knows."""
    entry = services.catalog.get(tool)
    return entry is not None and entry.manifest.reversibility == "reversible"


def tool_title(services: Context, name: str) -> str:
    entry = services.catalog.get(name)
    return entry.manifest.title if entry else name


def workflow_url(services: Context, workflow_id: str) -> str | None:
    """Where Temporal's own web interface shows a call's workflow."""
    return workflow_link(services.temporal_ui_url, services.namespace, workflow_id)


async def switched_off(services: Context, person: Person, approval: Approval) -> list[SwitchOff]:
    """The switches that are off and cover the call."""
    return await services.ledger.of(person.tenant).permits.off(person.tenant, covering(approval, services.catalog))


async def decide_once(
    services: Context,
    person: Person,
    approval_id: str,
    verdict: Choice,
    *,
    action_digest: str,
    reason: str,
    proof: Proof | None = None,
) -> Decided:
    """Decide as `decide` does. What was sent twice, as by a double click, is answered like the first time: what this
    person decided so stands."""
    decided = await decide(
        services, decider(person), approval_id, verdict, action_digest=action_digest, reason=reason, proof=proof
    )
    if decided.refused is None or not is_approval_id(approval_id):
        return decided
    approval = await services.ledger.of(person.tenant).approvals.get(person.tenant, approval_id)
    if approval is None or approval.action_digest != action_digest or not decided_by(approval, person, verdict):
        return decided
    if approval.status == "open":
        return Decided("waiting_for_second")
    return Decided("approved" if verdict == "approve" else "denied")
