"""Somebody says that they are reading what waits, so that nobody else has to."""

from dataclasses import dataclass
from typing import Literal

from api.context import Context
from api.deciding import Decider, may_decide
from schemas.decisions import ClaimedBy
from schemas.ids import is_approval_id

NotClaimed = Literal["not_found", "not_yours", "claimed", "already_decided"]


@dataclass(frozen=True, slots=True)
class Claimed:
    """Who has it now, and why it is not who asked."""

    by: ClaimedBy | None
    refused: NotClaimed | None = None


async def claim(services: Context, decider: Decider, approval_id: str, *, take_over: bool) -> Claimed:
    """Claim an approval that waits, for a quarter of an hour, or for as long again. Whoever may deny it may.

    Deciding is refused to others meanwhile, until they take it over: `take_over`.
    """
    if not is_approval_id(approval_id):
        return Claimed(None, "not_found")
    own = services.ledger.of(decider.tenant)
    approval = await own.approvals.get(decider.tenant, approval_id)
    if approval is None:
        return Claimed(None, "not_found")
    if not may_decide(decider, approval, "deny"):
        return Claimed(None, "not_yours")
    by = await own.claims.claim(decider.tenant, approval_id, decider.username, names=decider.names, take_over=take_over)
    if by is None:
        return Claimed(None, "already_decided")
    return Claimed(by, None if decider.is_one(by.username) else "claimed")


async def release(services: Context, decider: Decider, approval_id: str) -> bool:
    """Let others read it; whether there is such an approval. Of what is not this person's nothing changes."""
    own = services.ledger.of(decider.tenant)
    if not is_approval_id(approval_id) or await own.approvals.get(decider.tenant, approval_id) is None:
        return False
    await own.claims.release(decider.tenant, approval_id, decider.names)
    return True
