"""The one way in which a person's verdict becomes a decision: authorised, signed, recorded, then delivered."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import structlog
from opentelemetry import trace
from temporalio.service import RPCError

from activities.tracing import current_traceparent, describe_decision
from api.context import Context
from api.reach import covering
from ledger.approvals import Verdict
from ledger.database import UNAVAILABLE
from ledger.people import NOBODY, Objection, Right, Standing, names_of, right_to
from ledger.principals import Person, Principal
from schemas.decisions import Approval, ClaimedBy, HumanDecision, SignedDecision
from schemas.events import Through
from schemas.ids import is_approval_id, new_decision_id
from schemas.proofs import Proof

_log = structlog.get_logger()

Refused = Literal[
    "not_found",
    "not_yours",
    "over_limit",
    "reason_required",
    "not_proven",
    "claimed",
    "already_decided",
    "replaced",
    "expired",
    "stale",
]
Choice = Literal["approve", "deny"]


@dataclass(frozen=True, slots=True)
class Decider:
    """The authenticated person who decides. `standing` has what they are called and how far their roles go."""

    tenant: str
    username: str
    roles: frozenset[str]
    standing: Standing = NOBODY

    @classmethod
    def of(cls, who: Person | Principal) -> "Decider":
        """Whoever is signed in on the page, or holds an approver's token."""
        name = who.username if isinstance(who, Person) else who.name
        return cls(who.tenant, name, who.roles, who.standing)

    @property
    def names(self) -> frozenset[str]:
        """Every name of the person, with all their accounts'."""
        return self.standing.names | names_of(self.username) | {self.username}

    def is_one(self, username: str) -> bool:
        """Whether it is an account of theirs."""
        return not self.names.isdisjoint({username, *names_of(username)})


@dataclass(frozen=True, slots=True)
class Decided:
    """The outcome: either a status or why not. `waiting_for_second`: another person has to approve as well. `replaced`:
    people are asked anew, by `successor`. `claimed`: somebody else is reading it, `claimed_by`."""

    status: Literal["approved", "denied", "waiting_for_second"] | None
    refused: Refused | None = None
    successor: str | None = None
    claimed_by: ClaimedBy | None = None


def right_of(decider: Decider, approval: Approval, verdict: Choice = "approve") -> Right | Objection:
    """By what right this person decides so, on whichever path they come; or what keeps them from it."""
    known = decider.standing
    names = known.names | names_of(decider.username)
    standing = Standing(known.person_id, names, decider.roles, known.grants, known.lent)
    return right_to(standing, decider.username, approval, datetime.now(UTC), verdict)


def why_not(decider: Decider, approval: Approval, verdict: Choice = "approve") -> Objection | None:
    """What keeps this person from deciding so; None when nothing does."""
    right = right_of(decider, approval, verdict)
    return None if isinstance(right, Right) else right


def may_decide(decider: Decider, approval: Approval, verdict: Choice = "approve") -> bool:
    """Whether this person belongs to a group that may decide now, is not on the requester's side, and may go so far."""
    return why_not(decider, approval, verdict) is None


async def decide(
    services: Context,
    decider: Decider,
    approval_id: str,
    verdict: Literal["approve", "deny"],
    *,
    action_digest: str,
    reason: str,
    proof: Proof | None = None,
    through: Through = "page",
) -> Decided:
    """Decide one approval. The decision is committed before it is delivered; a lost delivery is repeated later.

    `proof`: what the person proved beside that they are signed in, where the approval asks for it.
    """
    if not is_approval_id(approval_id):
        return Decided(None, "not_found")
    approvals = services.ledger.of(decider.tenant).approvals
    approval = await approvals.get(decider.tenant, approval_id)
    if approval is None:
        return Decided(None, "not_found")
    right = right_of(decider, approval, verdict)
    if not isinstance(right, Right):
        return Decided(None, "over_limit" if right == "over_limit" else "not_yours")
    if verdict == "deny" and not reason.strip():
        return Decided(None, "reason_required")
    if approval.claimed_by is not None and not decider.is_one(approval.claimed_by.username):
        return Decided(None, "claimed", claimed_by=approval.claimed_by)
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
        proof=proof,
        on_behalf_of=right.on_behalf_of,
    )
    if not decision.is_proven(approval.proof):
        return Decided(None, "not_proven")
    token = services.signer.sign(decision)
    outcome, record = await approvals.decide(decision, token, covering(approval, services.catalog), through)
    describe_decision(trace.get_current_span(), decision)
    match outcome:
        case Verdict.RECORDED | Verdict.REPEATED if record is not None:
            signed = SignedDecision(
                approval_id=approval_id, verdict=verdict, token=token, decided_in=current_traceparent()
            )
            await deliver(services, record.workflow_id, signed)
            return Decided("approved" if verdict == "approve" else "denied")
        case Verdict.WAITING:
            # Their part is done; it is for somebody else to read now.
            with suppress(*UNAVAILABLE):
                await services.ledger.of(decider.tenant).claims.release(decider.tenant, approval_id)
            return Decided("waiting_for_second")
        case Verdict.ALREADY_DECIDED if record is not None and record.approval_id not in (None, approval_id):
            return Decided(None, "replaced", record.approval_id)
        case Verdict.ALREADY_DECIDED:
            return Decided(None, "already_decided")
        case Verdict.EXPIRED:
            return Decided(None, "expired")
        case Verdict.STALE:
            return Decided(None, "stale")
        case Verdict.NOT_THEIRS:
            return Decided(None, "not_yours")
        case Verdict.NOT_PROVEN:
            # Somebody tried: a passkey signed something else, or something that was used before.
            await approvals.reject(approval.request_id, approval_id, "passkey_not_valid")
            return Decided(None, "not_proven")
        case _:
            return Decided(None, "not_found")


async def deliver(services: Context, workflow_id: str, decision: SignedDecision) -> None:
    """Signal the workflow; when Temporal is away the committed decision is delivered by the healer instead."""
    try:
        await services.temporal.get_workflow_handle(workflow_id).signal("decide", decision)
    except RPCError as problem:
        _log.warning("decision_not_delivered", workflow_id=workflow_id, rpc_status=problem.status.name)
