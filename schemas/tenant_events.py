"""The events that are about no call: switches, accounts, absences, policies, and what became of what was kept.

They stand on streams of the tenant's own, or of everyone's.
"""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import StringConstraints

from schemas.base import EventBody
from schemas.policies import Vote


class SwitchChanged(EventBody):
    """A kill switch, or the lock of the vault, was turned. Kept on its tenant's own stream."""

    type: Literal["switch.changed"] = "switch.changed"
    switch: str
    off: bool
    by: str
    reason: str
    deadlines: Literal["pause", "run"]


class TokenIssued(EventBody):
    """A token was made for a service, an approver or an operator; a run's own belongs to its run. Kept on the tenant's
    stream of who was given what, as are the other events of accounts."""

    type: Literal["token.issued"] = "token.issued"
    token_id: str
    kind: str
    principal: str
    owner: str | None
    expires_at: datetime | None
    by: str


class TokenRevoked(EventBody):
    """A token was revoked by itself. Those of an account that was disabled ended with it (`user.disabled`)."""

    type: Literal["token.revoked"] = "token.revoked"
    token_id: str
    kind: str
    principal: str
    by: str


class UserAdded(EventBody):
    """A person got an account."""

    type: Literal["user.added"] = "user.added"
    username: str
    roles: tuple[str, ...]
    by: str


class UserDisabled(EventBody):
    """An account was shut out, with its sessions and tokens."""

    type: Literal["user.disabled"] = "user.disabled"
    username: str
    by: str


class PasskeyAdded(EventBody):
    """A person added a passkey. `credential` is the SHA-256 of its id, in hexadecimal."""

    type: Literal["passkey.added"] = "passkey.added"
    username: str
    credential: str


class PasskeyRemoved(EventBody):
    """A person removed a passkey."""

    type: Literal["passkey.removed"] = "passkey.removed"
    username: str
    credential: str


class DelegationMade(EventBody):
    """Somebody may decide in another's place for a time."""

    type: Literal["delegation.made"] = "delegation.made"
    delegation_id: str
    delegator: str
    delegate: str
    starts_at: datetime
    ends_at: datetime
    reason: str
    by: str


class DelegationEnded(EventBody):
    """A delegation was ended before its time."""

    type: Literal["delegation.ended"] = "delegation.ended"
    delegation_id: str
    delegator: str
    delegate: str
    by: str


class PolicyPublished(EventBody):
    """Another policy is in force than was said last. Kept on everyone's stream of policies."""

    version: ClassVar[int] = 2
    type: Literal["policy.published"] = "policy.published"
    policy_version: str
    by: str
    number: int | None = None
    """Of the publication; None where a process began to decide by a policy of its own files."""
    digest: str | None = None
    """SHA-256 over all that it means."""
    people: tuple[str, ...] = ()
    """Everybody who put it in force, `by` first."""
    proposal_id: str | None = None


class PolicyProposed(EventBody):
    """A person proposes a policy in the place of publication `base` (0: of none), and agrees to it. Kept on everyone's
    stream of proposals, with what others say to it."""

    type: Literal["policy.proposed"] = "policy.proposed"
    proposal_id: str
    policy_version: str
    base: int
    by: str
    reason: str


class PolicyVoted(EventBody):
    """Another person agrees to a proposed policy, or objects, which ends the proposal."""

    type: Literal["policy.voted"] = "policy.voted"
    proposal_id: str
    vote: Vote
    by: str
    reason: str


class HistoryDecoded(EventBody):
    """Somebody was shown payloads of Temporal's histories; recorded before they were. Kept on a stream of the tenant
    whose people run the service."""

    type: Literal["history.decoded"] = "history.decoded"
    principal: str
    through: Literal["session", "token"]
    namespace: str
    payloads: tuple[str, ...]
    """SHA-256 of each, as Temporal has it: of the ciphertext."""
    calls: tuple[str, ...]
    """The request ids that stand in them."""


class CustomerErased(EventBody):
    """Whatever was kept of a customer was destroyed. Kept on the tenant's own stream; it names nobody."""

    type: Literal["customer.erased"] = "customer.erased"
    customer: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
    """SHA-256 of tenant and customer id."""
    calls: int
    by: str
    reason: str


class EventsPruned(EventBody):
    """Bodies of one type of events were older than they are kept: their hashes took their place. Kept on the tenant's
    own stream."""

    type: Literal["events.pruned"] = "events.pruned"
    event_type: str
    until: datetime
    """Those from before then."""
    count: int
