"""What a policy decided, and what a person decided."""

from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from schemas.base import Model
from schemas.codes import Code
from schemas.proofs import Proof, ProofLevel
from schemas.replies import Explanation, Verdict


class Claim(Model):
    """What a write takes from something finite: `amount` of `resource`, `available` of it left when facts were read."""

    resource: str
    amount: int
    available: int
    currency: str


class PolicyDecision(Model):
    """Outcome of `policy.decide`. `rules` names every rule that asked for a person; `rule` the one that decided."""

    verdict: Verdict
    rule: str
    because: str
    policy_version: str
    rules: tuple[str, ...] = ()
    code: Code | None = None
    explanation: Explanation | None = None
    approvers: str | None = None
    deadline_seconds: int | None = None
    people: int = 1
    """How many different people have to approve."""
    proof: ProofLevel | None = None
    """What each of them has to prove beside their session."""
    escalates_to: str | None = None
    """The group that may decide as well once half the time has gone."""
    execute_within_seconds: int | None = None
    """How long after an approval the call may run."""
    attempts_remaining: int | None = None
    """How many more calls its run may make after this one, once few are left."""


class ShadowDecision(Model):
    """What a candidate says of a call that the policy in force decides; it is written down and nothing comes of it.

    `verdict` is None where the candidate could not be asked.
    """

    policy_version: str
    verdict: Verdict | None
    rule: str
    code: Code | None = None


class HumanDecision(Model):
    """The payload of a signed decision. Single use: it binds one approval and one action digest."""

    decision_id: str
    approval_id: str
    request_id: str
    tenant: str
    action_digest: str
    policy_version: str
    approver: str
    verdict: Literal["approve", "deny"]
    reason: str
    decided_at: datetime
    proof: Proof | None = None
    """What the approver proved beside their session."""
    on_behalf_of: str | None = None
    """Whose right the approver used, who is away and lent it to them; None for their own."""

    def is_proven(self, required: ProofLevel | None) -> bool:
        """Whether it came with what an approval asks for. Nothing is asked of a denial."""
        if required is None or self.verdict == "deny":
            return True
        return self.proof is not None and self.proof.satisfies(required, self.decided_at)


class SignedDecision(Model):
    """What the signal and update `decide` carry: a compact JWS (RFC 7515) over a `HumanDecision`.

    `verdict` only says where to take it; what counts is what the signature covers.
    """

    approval_id: str
    verdict: Literal["approve", "deny"]
    token: str
    decided_in: str | None = None
    """The `traceparent` (https://www.w3.org/TR/trace-context/) of the request that brought it: traces are linked by it,
    and nothing else rests on it."""


class ClaimedBy(Model):
    """Who says that they are reading an approval, until when that stands."""

    username: str
    display_name: str
    since: datetime
    until: datetime


ApprovalStatus = Literal["open", "granted", "denied", "expired", "voided", "withdrawn"]


class Approval(Model):
    """One request for a person's decision, with the exact action and the facts it was parked on."""

    approval_id: str
    request_id: str
    tenant: str
    tool: str
    tool_version: str
    title: str
    """The action in plain words, rendered from arguments and facts by the tool; holds no text of the agent's."""
    arguments: dict[str, JsonValue]
    facts: dict[str, JsonValue]
    facts_at: datetime
    rule: str
    rules: tuple[str, ...]
    because: str
    policy_version: str
    action_digest: str
    action: dict[str, JsonValue] | None = None
    """What `action_digest` is the digest of, the agent's words and key among it; None for an approval from before."""
    status: ApprovalStatus
    approvers: str
    people: int = 1
    """How many different people have to approve."""
    proof: ProofLevel | None = None
    """What each of them has to prove beside their session; without it an approval is not taken."""
    escalates_to: str | None = None
    escalates_at: datetime | None = None
    """From when on that group may decide as well."""
    execute_within_seconds: int | None = None
    """How long after the last approval the call may run; after that it is asked about again."""
    requested_at: datetime
    expires_at: datetime
    closed_at: datetime | None = None
    decisions: tuple[HumanDecision, ...] = ()
    claimed_by: ClaimedBy | None = None
    """Who reads it just now; until they let it go or somebody takes it over, nobody else decides it."""
    untrusted: dict[str, str]
    """The agent's own words, by argument name."""
    agent_id: str
    actor_id: str
    customer_id: str
    run_id: str
    owner: str | None = None
    """Who answers for the agent, where the service's token says so."""
    amount: int | None = None
    """What it takes from something finite, in minor units of `currency`; None where it takes nothing."""
    currency: str | None = None

    @property
    def erased(self) -> bool:
        """Whether its customer was erased: all that said something of them is gone, and its tool's version with it."""
        return not self.tool_version

    def groups(self, now: datetime) -> frozenset[str]:
        """Whose people may decide at a time: those who were asked, and after half the time those above them too."""
        escalated = self.escalates_to is not None and self.escalates_at is not None and now >= self.escalates_at
        return frozenset({self.approvers, self.escalates_to} if escalated and self.escalates_to else {self.approvers})
