"""The events of the ledger: past tense, versioned, append-only. The state of a call is a fold over its events.

Here are those of calls, and `Event`, which is any; `schemas.tenant_events` has those that are about no call. A
changed shape is a new version of the event, never another meaning of the old one.
"""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue, StringConstraints, TypeAdapter

from schemas.base import EventBody, Model
from schemas.calls import Call, RunFacts
from schemas.codes import Code, Status
from schemas.decisions import Approval, Claim, PolicyDecision, ShadowDecision
from schemas.effects import Effect, Exchange, ReviewReason
from schemas.proofs import Proof
from schemas.replies import Explanation
from schemas.tenant_events import (
    CustomerErased,
    DelegationEnded,
    DelegationMade,
    EventsPruned,
    HistoryDecoded,
    PasskeyAdded,
    PasskeyRemoved,
    PolicyProposed,
    PolicyPublished,
    PolicyVoted,
    SwitchChanged,
    TokenIssued,
    TokenRevoked,
    UserAdded,
    UserDisabled,
)

EgressReason = Literal["system_not_declared", "url_not_plain", "origin_not_listed", "address_not_allowed"]
"""The tool's manifest does not name the system; the URL or its Host header is not in plain form; the system's settings
have another origin; the name has an address that its system may not have."""


Through = Literal["page", "api"]


class CallProposed(EventBody):
    """A run asked for the call; its first event."""

    version: ClassVar[int] = 2

    type: Literal["call.proposed"] = "call.proposed"
    call: Call


class CallDecided(EventBody):
    """The policy decided it, on these facts and sums."""

    version: ClassVar[int] = 3
    type: Literal["call.decided"] = "call.decided"
    decision: PolicyDecision
    facts: dict[str, JsonValue]
    totals: dict[str, int]
    uses: dict[str, int] = Field(default_factory=dict[str, int])
    """What it takes of each subject that it counts against, held until its outcome is known."""
    usage: dict[str, int] | None = None
    """How much of each limit, by name, earlier calls had used; also of `breaker`, `parked_per_agent` and
    `parked_per_tenant`."""
    claim: Claim | None = None
    """What it takes from something finite, and how much of that others had left it; None where it takes nothing."""
    run: RunFacts | None = None
    """What its run had done before; None where nobody wrote that down."""
    shadow: ShadowDecision | None = None
    """What a candidate beside the policy would have said."""


class ApprovalRequested(EventBody):
    """The call was parked: a person of the group `approvers` is asked."""

    version: ClassVar[int] = 2
    type: Literal["approval.requested"] = "approval.requested"
    approval_id: str
    action_digest: str
    title: str
    approvers: str
    expires_at: datetime
    approval: Approval | None = None
    """All that people were asked."""


class ApprovalViewed(EventBody):
    """A person opened the approval while it waited; once per person."""

    type: Literal["approval.viewed"] = "approval.viewed"
    approval_id: str
    viewer: str


class _ApprovalDecided(EventBody):
    """What a person decided."""

    version: ClassVar[int] = 2
    approval_id: str
    decision_id: str
    approver: str
    reason: str
    action_digest: str
    token: str
    """The signed decision itself."""
    on_behalf_of: str | None = None
    """Whose right the approver used, where it was not their own."""
    through: Through | None = None
    """Where they made it; None for what was delivered in another way."""
    proof: Proof | None = None
    """What they proved beside their session."""


class ApprovalGranted(_ApprovalDecided):
    """A person approved it; the first decision counts."""

    type: Literal["approval.granted"] = "approval.granted"


class ApprovalSupported(_ApprovalDecided):
    """A person approved it, and another one has to as well before it may run."""

    type: Literal["approval.supported"] = "approval.supported"


class ApprovalDenied(_ApprovalDecided):
    """A person denied it; the first decision counts."""

    type: Literal["approval.denied"] = "approval.denied"


class CallAmended(EventBody):
    """A person changed what the agent had asked for while it waited: a new action, about which people are asked anew.

    `arguments` are all that it would be executed with, the agent's key and words as they were.
    """

    version: ClassVar[int] = 2
    type: Literal["call.amended"] = "call.amended"
    approval_id: str
    """The approval that this ended."""
    principal: str
    arguments: dict[str, JsonValue]
    reason: str
    amount: int | None = None
    """What it takes from now on, of each of its subjects."""
    decision: PolicyDecision | None = None
    """What the policy says to it now."""


class ApprovalExtended(EventBody):
    """A person gave it more time."""

    type: Literal["approval.extended"] = "approval.extended"
    approval_id: str
    principal: str
    expires_at: datetime
    reason: str


class ApprovalResumed(EventBody):
    """A kill switch had paused its deadline, and was turned on again: there is as much time left as before."""

    type: Literal["approval.resumed"] = "approval.resumed"
    approval_id: str
    switch: str
    expires_at: datetime


class ApprovalExpired(EventBody):
    """Nobody decided before the deadline."""

    type: Literal["approval.expired"] = "approval.expired"
    approval_id: str


class ApprovalVoided(EventBody):
    """It was approved, but what that rested on no longer held before the effect was sent."""

    type: Literal["approval.voided"] = "approval.voided"
    approval_id: str
    because: str
    facts: dict[str, JsonValue]


class DecisionRejected(EventBody):
    """Something was delivered as a decision and did not count."""

    type: Literal["decision.rejected"] = "decision.rejected"
    approval_id: str
    because: str


class EffectIntended(EventBody):
    """Committed before the first byte is sent."""

    type: Literal["effect.intended"] = "effect.intended"
    effect: Effect
    policy_version: str
    facts: dict[str, JsonValue]


class EffectConfirmed(EventBody):
    """The remote system confirmed the effect, with our amount, currency and operation id."""

    version: ClassVar[int] = 2

    type: Literal["effect.confirmed"] = "effect.confirmed"
    operation_id: str
    remote_id: str
    result: dict[str, JsonValue]
    exchange: Exchange
    remote_at: datetime | None = None
    """When it happened by the remote system's own clock; None where that does not say, and in version 1."""


class EffectFailed(EventBody):
    """The effect did not happen: the remote documents that for its answer, or nothing was sent."""

    type: Literal["effect.failed"] = "effect.failed"
    operation_id: str
    code: Code
    exchange: Exchange


class EffectUnknown(EventBody):
    """The answer was lost or cannot be believed: the effect may have happened."""

    version: ClassVar[int] = 2
    type: Literal["effect.unknown"] = "effect.unknown"
    operation_id: str
    exchange: Exchange | None
    """None when the worker that sent it was lost."""
    operation: str | None = None
    """What kind of effect it is, as the agent is told."""


class EffectInspected(EventBody):
    """The effect was looked up at the remote system by its operation id. The rest is of an effect that was settled
    before."""

    version: ClassVar[int] = 2
    type: Literal["effect.inspected"] = "effect.inspected"
    operation_id: str
    found: Literal["confirmed", "failed", "absent", "unknown"]
    exchange: Exchange
    result: dict[str, JsonValue] | None = None
    """What the system says of it now, where that is something else than before."""
    explanation: Explanation | None = None
    """What the agent is told of that."""
    recheck_at: datetime | None = None
    """When it is looked at again; None for never."""


class EffectReversed(EventBody):
    """The effect was confirmed, and later undone at the remote system: a refund that its bank sent back."""

    type: Literal["effect.reversed"] = "effect.reversed"
    operation_id: str
    remote_id: str | None
    exchange: Exchange


class ReviewRequested(EventBody):
    """The outcome could not be found out: a person is asked to settle it."""

    type: Literal["review.requested"] = "review.requested"
    operation_id: str
    because: ReviewReason


class ReviewConcluded(EventBody):
    """An operator settled an outcome that could not be found out, on evidence of their own."""

    type: Literal["review.concluded"] = "review.concluded"
    operation_id: str
    operator: str
    happened: bool
    remote_id: str | None
    evidence: str


class CallCancelled(EventBody):
    """The requester withdrew the parked call."""

    type: Literal["call.cancelled"] = "call.cancelled"
    principal: str


class CallSettled(EventBody):
    """The call ended; nothing more happens of itself."""

    version: ClassVar[int] = 2
    type: Literal["call.settled"] = "call.settled"
    status: Status
    code: Code
    explanation: Explanation | None = None
    result: dict[str, JsonValue] | None = None
    recheck_at: datetime | None = None
    """When its effect is looked at again; None for never."""


class LimitHit(EventBody):
    """A limit of the policy refused the call."""

    type: Literal["limit.hit"] = "limit.hit"
    limit: str
    subject: str


class BreakerTripped(EventBody):
    """The tool was called as often as its breaker lets it: the breaker turned its switch off, and the call was refused.
    The switch stays off until an operator turns it on."""

    type: Literal["breaker.tripped"] = "breaker.tripped"
    switch: str
    tool: str
    max: int
    window_seconds: int
    because: str


class EgressDenied(EventBody):
    """A request to a remote system was refused before anything was sent: it would have gone where none may go."""

    type: Literal["egress.denied"] = "egress.denied"
    system: str
    host: Annotated[str, StringConstraints(pattern="^[!-~]{0,253}$")]
    because: EgressReason


class DiagnosticOpened(EventBody):
    """Somebody opened the protected diagnostics of the request; recorded before anything was shown."""

    type: Literal["diagnostic.opened"] = "diagnostic.opened"
    principal: str
    through: Literal["page", "command_line"]


Event = Annotated[
    CallProposed
    | CallDecided
    | ApprovalRequested
    | ApprovalViewed
    | ApprovalGranted
    | ApprovalSupported
    | ApprovalDenied
    | CallAmended
    | ApprovalExtended
    | ApprovalResumed
    | ApprovalExpired
    | ApprovalVoided
    | DecisionRejected
    | EffectIntended
    | EffectConfirmed
    | EffectFailed
    | EffectUnknown
    | EffectInspected
    | EffectReversed
    | ReviewRequested
    | ReviewConcluded
    | SwitchChanged
    | TokenIssued
    | TokenRevoked
    | UserAdded
    | UserDisabled
    | PasskeyAdded
    | PasskeyRemoved
    | DelegationMade
    | DelegationEnded
    | PolicyPublished
    | PolicyProposed
    | PolicyVoted
    | CallCancelled
    | CallSettled
    | LimitHit
    | BreakerTripped
    | EgressDenied
    | DiagnosticOpened
    | HistoryDecoded
    | CustomerErased
    | EventsPruned,
    Field(discriminator="type"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)


class Pruned(Model):
    """An event of which nothing is left but that it happened, when, and its hash: its time was up, or its customer was
    erased."""

    type: str
    erased: bool = False


Recorded = Event | Pruned
"""An event as it is read."""
