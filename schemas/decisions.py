"""What a policy decided, and what a person decided."""

from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from schemas.base import Model
from schemas.codes import Code
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
    attempts_remaining: int | None = None
    """How many more calls its run may make after this one, once few are left."""


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


class SignedDecision(Model):
    """What the signal and update `decide` carry: a compact JWS (RFC 7515) over a `HumanDecision`.

    `verdict` only says where to take it; what counts is what the signature covers.
    """

    approval_id: str
    verdict: Literal["approve", "deny"]
    token: str


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
    status: ApprovalStatus
    approvers: str
    requested_at: datetime
    expires_at: datetime
    closed_at: datetime | None = None
    decisions: tuple[HumanDecision, ...] = ()
    untrusted: dict[str, str]
    """The agent's own words, by argument name."""
    agent_id: str
    actor_id: str
    customer_id: str
    run_id: str
