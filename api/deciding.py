"""The one way in which a person's verdict becomes a decision: authorised, signed, recorded, then delivered."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import structlog
from temporalio.service import RPCError

from api.context import Context
from api.reach import covering
from ledger.approvals import Through, Verdict
from schemas.decisions import Approval, HumanDecision, SignedDecision
from schemas.ids import is_approval_id, new_decision_id

_log = structlog.get_logger()

Refused = Literal["not_found", "not_yours", "reason_required", "already_decided", "expired", "stale"]


@dataclass(frozen=True, slots=True)
class Decider:
    """The authenticated person who decides."""

    tenant: str
    username: str
    roles: frozenset[str]


@dataclass(frozen=True, slots=True)
class Decided:
    """The outcome: either a status or why not. `waiting_for_second`: another person has to approve as well."""

    status: Literal["approved", "denied", "waiting_for_second"] | None
    refused: Refused | None = None


def may_decide(decider: Decider, approval: Approval) -> bool:
    """Whether this person belongs to the approver group and is not on the requester's side."""
    requester = {approval.agent_id.casefold(), approval.actor_id.casefold()}
    asked = approval.groups(datetime.now(UTC))
    return not asked.isdisjoint(decider.roles) and decider.username.casefold() not in requester


async def decide(
    services: Context,
    decider: Decider,
    approval_id: str,
    verdict: Literal["approve", "deny"],
    *,
    action_digest: str,
    reason: str,
    through: Through = "page",
) -> Decided:
    """Decide one approval. The decision is committed before it is delivered; a lost delivery is repeated later."""
    if not is_approval_id(approval_id):
        return Decided(None, "not_found")
    approvals = services.ledger.of(decider.tenant).approvals
    approval = await approvals.get(decider.tenant, approval_id)
    if approval is None:
        return Decided(None, "not_found")
    if not may_decide(decider, approval):
        return Decided(None, "not_yours")
    if verdict == "deny" and not reason.strip():
        return Decided(None, "reason_required")
    decision = HumanDecision(
        decision_id=new_decision_id(),
        approval_id=approval_id,
        request_id=approval.request_id,
        tenant=approval.tenant,
        action_digest=action_digest,
        policy_version=approval.policy_version,
        approver=decider.username,
        verdict=verdict,
        reason=reason.strip(),
        decided_at=datetime.now(UTC),
    )
    token = services.signer.sign(decision)
    outcome, record = await approvals.decide(decision, token, covering(approval, services.catalog), through)
    match outcome:
        case Verdict.RECORDED | Verdict.REPEATED if record is not None:
            await deliver(
                services, record.workflow_id, SignedDecision(approval_id=approval_id, verdict=verdict, token=token)
            )
            return Decided("approved" if verdict == "approve" else "denied")
        case Verdict.WAITING:
            return Decided("waiting_for_second")
        case Verdict.ALREADY_DECIDED:
            return Decided(None, "already_decided")
        case Verdict.EXPIRED:
            return Decided(None, "expired")
        case Verdict.STALE:
            return Decided(None, "stale")
        case _:
            return Decided(None, "not_found")


async def deliver(services: Context, workflow_id: str, decision: SignedDecision) -> None:
    """Signal the workflow; when Temporal is away the committed decision is delivered by the healer instead."""
    try:
        await services.temporal.get_workflow_handle(workflow_id).signal("decide", decision)
    except RPCError as problem:
        _log.warning("decision_not_delivered", workflow_id=workflow_id, rpc_status=problem.status.name)
