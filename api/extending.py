"""A person gives a call that waits more time, instead of letting it expire."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from api.context import Context
from api.deciding import Decider, may_decide
from api.reach import covering
from ledger.approvals import MOST_AHEAD, Verdict
from schemas.ids import is_approval_id

NotExtended = Literal["not_found", "not_yours", "reason_required", "already_decided", "expired", "not_later", "too_far"]

_REFUSED: dict[Verdict, NotExtended] = {
    Verdict.ALREADY_DECIDED: "already_decided",
    Verdict.EXPIRED: "expired",
    Verdict.NOT_THEIRS: "not_yours",
    Verdict.STALE: "not_later",
    Verdict.TOO_FAR: "too_far",
}


_SPANS = (timedelta(hours=1), timedelta(hours=4), timedelta(days=1), timedelta(days=3))


def later(expires_at: datetime, now: datetime) -> list[tuple[timedelta, datetime]]:
    """What can be chosen from: (how much more, until when), in whole seconds. None is left near the most. Pure."""
    offered = [(more, (expires_at + more).replace(microsecond=0)) for more in _SPANS]
    return [(more, until) for more, until in offered if now < until <= now + MOST_AHEAD]


@dataclass(frozen=True, slots=True)
class Extended:
    """The deadline that holds now, or why it was not moved."""

    expires_at: datetime | None
    refused: NotExtended | None = None


async def extend(services: Context, decider: Decider, approval_id: str, until: datetime, *, reason: str) -> Extended:
    """Move the deadline of an approval that waits to `until`, which is later than it is and at most
    `ledger.approvals.MOST_AHEAD` away. Whoever may deny it may; nothing is decided by it.

    A moment and not a span: sent twice, it counts once.
    """
    if not is_approval_id(approval_id):
        return Extended(None, "not_found")
    approvals = services.ledger.of(decider.tenant).approvals
    approval = await approvals.get(decider.tenant, approval_id)
    if approval is None:
        return Extended(None, "not_found")
    if not may_decide(decider, approval, "deny"):
        return Extended(None, "not_yours")
    if not reason.strip():
        return Extended(None, "reason_required")
    verdict = await approvals.extend(
        approval, until, by=decider.username, reason=reason.strip(), switches=covering(approval, services.catalog)
    )
    if verdict is Verdict.RECORDED:
        return Extended(until)
    return Extended(None, _REFUSED[verdict])
