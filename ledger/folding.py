"""Where a call stands, as a fold over its events. Pure.

The ledger writes its projections by this as it goes, and compares and rebuilds them by it: there is no other rule by
which a row of theirs comes to be. An event changes the call's row (`_moved`) and what stands beside it (`_changed`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import singledispatch
from typing import Any

from ledger.chain import GENESIS, EventRow, Head
from ledger.decision_bodies import PersonDecided
from ledger.records import SETTLED, CallDetails, CallRecord, UseState, trip_subject
from schemas.base import EventBody
from schemas.codes import Code
from schemas.decisions import Approval, ApprovalStatus
from schemas.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalGranted,
    ApprovalRequested,
    ApprovalResumed,
    ApprovalSupported,
    ApprovalViewed,
    ApprovalVoided,
    BreakerTripped,
    CallAmended,
    CallCancelled,
    CallDecided,
    CallProposed,
    CallSettled,
    EffectConfirmed,
    EffectInspected,
    EffectIntended,
    EffectUnknown,
    Event,
    ReviewConcluded,
    ReviewRequested,
)
from schemas.replies import Explanation, waits_until


class BrokenHistory(Exception):
    """These are not the events of a call: one sentence of ours."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What events change beside the call's own row; None is nothing.

    `takes`: of each subject, until the call's outcome is known, and `amount`: of each from now on. `trips`: the subject
    by which a breaker says since when it counts again.
    """

    asks: Approval | None = None
    closes: tuple[str, ApprovalStatus] | None = None
    deadline: tuple[str, datetime] | None = None
    decided: PersonDecided | None = None
    viewed: ApprovalViewed | None = None
    takes: dict[str, int] | None = None
    amount: int | None = None
    uses: UseState | None = None
    trips: str | None = None

    def and_then(self, later: "Changes") -> "Changes":
        """Both; of two of a kind the later."""
        said = {each.name: value for each in fields(later) if (value := getattr(later, each.name)) is not None}
        return replace(self, **said) if said else self


NOTHING = Changes()


def advanced(
    record: CallRecord | None, events: Sequence[Event], *, head: Head, at: datetime
) -> tuple[CallRecord, Changes]:
    """The call after these events, the last of which is `head`, and what else they change.

    A call begins with its `call.proposed` (`record` None). Raises BrokenHistory.
    """
    changes = NOTHING
    for event in events:
        if record is None:
            record = _begun(event, at)
        else:
            changes = changes.and_then(_changed(event, record))
            record = _moved(event, record, at)
    if record is None:
        raise BrokenHistory("there is no event")
    return replace(record, updated_at=at, head=head), changes


def _begun(event: Event, at: datetime) -> CallRecord:
    if not isinstance(event, CallProposed):
        raise BrokenHistory(f"its first event is {event.type}")
    call = event.call
    return CallRecord(
        request_id=call.request_id,
        tenant=call.binding.tenant,
        agent_id=call.binding.agent_id,
        tool=call.tool,
        workflow_id=call.workflow_id,
        arguments_digest=call.arguments_digest,
        status="in_progress",
        code=Code.IN_PROGRESS,
        verdict=None,
        rule=None,
        policy_version=None,
        approval_id=None,
        operation_id=None,
        intended_at=None,
        remote_id=None,
        review=None,
        recheck_at=None,
        created_at=at,
        updated_at=at,
        head=Head(0, GENESIS),
        details=CallDetails(call=call, facts={}, totals={}),
    )


# The call's own row


@singledispatch
def _moved(event: EventBody, record: CallRecord, at: datetime) -> CallRecord:
    """Where the call stands after an event; after most of them where it stood."""
    return record


def _with(record: CallRecord, **details: Any) -> CallDetails:
    return record.details.model_copy(update=details)


@_moved.register
def _(event: CallDecided, record: CallRecord, at: datetime) -> CallRecord:
    decision = event.decision
    return replace(
        record,
        verdict=decision.verdict,
        rule=decision.rule,
        policy_version=decision.policy_version,
        details=_with(record, facts=event.facts, totals=event.totals, run=event.run, decision=decision),
    )


@_moved.register
def _(event: ApprovalRequested, record: CallRecord, at: datetime) -> CallRecord:
    said = waits_until(event.expires_at)
    return replace(
        record,
        status="pending_approval",
        code=Code.PENDING_APPROVAL,
        approval_id=event.approval_id,
        details=_with(record, explanation=said),
    )


@_moved.register
def _(event: ApprovalExtended, record: CallRecord, at: datetime) -> CallRecord:
    return replace(record, details=_with(record, explanation=waits_until(event.expires_at)))


@_moved.register
def _(event: ApprovalGranted, record: CallRecord, at: datetime) -> CallRecord:
    return replace(
        record, status="in_progress", code=Code.IN_PROGRESS, details=_with(record, explanation=Explanation())
    )


@_moved.register
def _(event: CallAmended, record: CallRecord, at: datetime) -> CallRecord:
    details = record.details
    amended = _with(
        record,
        call=details.call.model_copy(update={"arguments": event.arguments}),
        requested=details.requested or details.call.arguments,
        decision=event.decision,
    )
    return replace(record, details=amended)


@_moved.register
def _(event: EffectIntended, record: CallRecord, at: datetime) -> CallRecord:
    effect = event.effect
    record = replace(record, operation_id=effect.operation_id, intended_at=effect.intended_at)
    if effect.attempt > 1:
        return replace(
            record, status="outcome_unknown", code=Code.OUTCOME_UNKNOWN, details=_with(record, effect=effect)
        )
    details = _with(record, effect=effect, explanation=Explanation())
    return replace(record, status="in_progress", code=Code.IN_PROGRESS, details=details)


@_moved.register
def _(event: EffectConfirmed, record: CallRecord, at: datetime) -> CallRecord:
    return replace(record, remote_id=event.remote_id)


@_moved.register
def _(event: EffectUnknown, record: CallRecord, at: datetime) -> CallRecord:
    said = Explanation(values={"operation": event.operation or "operation"}, operation=event.operation)
    details = _with(record, explanation=said)
    return replace(record, status="outcome_unknown", code=Code.OUTCOME_UNKNOWN, details=details)


@_moved.register
def _(event: EffectInspected, record: CallRecord, at: datetime) -> CallRecord:
    if record.status not in SETTLED:
        return record
    details = record.details
    if event.result is not None:
        details = _with(record, result=event.result, explanation=event.explanation or details.explanation)
    return replace(record, recheck_at=event.recheck_at, details=details)


@_moved.register
def _(event: ReviewRequested, record: CallRecord, at: datetime) -> CallRecord:
    return replace(record, review=event.because)


@_moved.register
def _(event: ReviewConcluded, record: CallRecord, at: datetime) -> CallRecord:
    return replace(record, remote_id=(event.remote_id if event.happened else None) or record.remote_id)


@_moved.register
def _(event: CallSettled, record: CallRecord, at: datetime) -> CallRecord:
    result = event.result if event.result is not None else record.details.result
    return replace(
        record,
        status=event.status,
        code=event.code,
        review=None,
        recheck_at=event.recheck_at,
        details=_with(record, explanation=event.explanation or Explanation(), result=result),
    )


# What stands beside it


@singledispatch
def _changed(event: EventBody, record: CallRecord) -> Changes:
    """What an event changes beside the row of its call, which stood at `record` before it."""
    return NOTHING


@_changed.register
def _(event: CallDecided, record: CallRecord) -> Changes:
    return Changes(takes=event.uses)


@_changed.register
def _(event: ApprovalRequested, record: CallRecord) -> Changes:
    return Changes(asks=event.approval)


@_changed.register(ApprovalExtended)
@_changed.register(ApprovalResumed)
def _(event: ApprovalExtended | ApprovalResumed, record: CallRecord) -> Changes:
    return Changes(deadline=(event.approval_id, event.expires_at))


@_changed.register
def _(event: ApprovalViewed, record: CallRecord) -> Changes:
    return Changes(viewed=event)


@_changed.register
def _(event: ApprovalSupported, record: CallRecord) -> Changes:
    return Changes(decided=event)


@_changed.register
def _(event: ApprovalGranted, record: CallRecord) -> Changes:
    return Changes(decided=event, closes=(event.approval_id, "granted"))


@_changed.register
def _(event: ApprovalDenied, record: CallRecord) -> Changes:
    return Changes(decided=event, closes=(event.approval_id, "denied"))


@_changed.register
def _(event: ApprovalExpired, record: CallRecord) -> Changes:
    return Changes(closes=(event.approval_id, "expired"))


@_changed.register
def _(event: ApprovalVoided, record: CallRecord) -> Changes:
    return Changes(closes=(event.approval_id, "voided"))


@_changed.register
def _(event: CallAmended, record: CallRecord) -> Changes:
    return Changes(closes=(event.approval_id, "voided"), amount=event.amount)


@_changed.register
def _(event: CallCancelled, record: CallRecord) -> Changes:
    return Changes(closes=(record.approval_id, "withdrawn") if record.approval_id else None)


@_changed.register
def _(event: CallSettled, record: CallRecord) -> Changes:
    return Changes(uses="spent" if event.status == "executed" else "released")


@_changed.register
def _(event: BreakerTripped, record: CallRecord) -> Changes:
    return Changes(trips=trip_subject(event.switch))


# All of it, from the first event on


@dataclass(frozen=True, slots=True)
class Use:
    """What a call takes of a subject."""

    amount: int
    at: datetime
    changed_at: datetime
    state: UseState


@dataclass(frozen=True, slots=True)
class Asked:
    """An approval as people were asked, and what has become of it since."""

    approval: Approval
    status: ApprovalStatus
    expires_at: datetime
    closed_at: datetime | None = None


@dataclass(slots=True)
class Projected:
    """Everything that the projections hold of one call. `decisions` with when they were made, and `views`, by
    (approval, person), with when the person first looked."""

    record: CallRecord
    approvals: dict[str, Asked] = field(default_factory=dict[str, Asked])
    decisions: list[tuple[PersonDecided, datetime]] = field(default_factory=list[tuple[PersonDecided, datetime]])
    views: dict[tuple[str, str], datetime] = field(default_factory=dict[tuple[str, str], datetime])
    uses: dict[str, Use] = field(default_factory=dict[str, Use])
    trips: dict[str, Use] = field(default_factory=dict[str, Use])

    def given(self, approval_id: str) -> int:
        """How many approvals an approval has."""
        of_it = [each for each, _ in self.decisions if each.approval_id == approval_id]
        return sum(not isinstance(each, ApprovalDenied) for each in of_it)

    def take(self, changes: Changes, at: datetime) -> None:
        """Let changes happen to what stands beside the call."""
        if changes.takes is not None:
            self.uses = {subject: Use(amount, at, at, "held") for subject, amount in changes.takes.items()}
        if changes.amount is not None:
            self.uses = {subject: replace(use, amount=changes.amount) for subject, use in self.uses.items()}
        if changes.uses is not None:
            state = changes.uses
            self.uses = {subject: replace(use, state=state, changed_at=at) for subject, use in self.uses.items()}
        if changes.trips is not None:
            self.trips[changes.trips] = Use(0, at, at, "spent")
        if changes.closes is not None:
            self._of(changes.closes[0], status=changes.closes[1], closed_at=at)
        if changes.deadline is not None:
            self._of(changes.deadline[0], expires_at=changes.deadline[1])
        if changes.asks is not None:
            asks = changes.asks
            self.approvals[asks.approval_id] = Asked(asks, asks.status, asks.expires_at)
        if changes.decided is not None:
            self.decisions.append((changes.decided, at))
        if changes.viewed is not None:
            self.views.setdefault((changes.viewed.approval_id, changes.viewed.viewer), at)

    def _of(self, approval_id: str, **changes: Any) -> None:
        if (asked := self.approvals.get(approval_id)) is None:
            raise BrokenHistory("an event is about an approval that nobody was asked for")
        self.approvals[approval_id] = replace(asked, **changes)


SAYS_ALL = {
    "approval.denied": 2,
    "approval.granted": 2,
    "approval.requested": 2,
    "approval.supported": 2,
    "call.amended": 2,
    "call.decided": 2,
    "call.settled": 2,
    "effect.inspected": 2,
    "effect.unknown": 2,
}
"""From which version on an event says all that the projections hold; others do from the first on. What an older one did
not say is in the projections alone."""


def says_all(row: EventRow) -> bool:
    """Whether an event was written in a version that says all of it."""
    return row.version >= SAYS_ALL.get(row.type, 1)


def project(history: Iterable[tuple[EventRow, Event]]) -> Projected:
    """What the projections hold of a call with these events, in order. Raises BrokenHistory."""
    projected: Projected | None = None
    for row, event in history:
        before = None if projected is None else projected.record
        record, changes = advanced(before, [event], head=Head(row.n, row.hash), at=row.at)
        if projected is None:
            projected = Projected(record)
        projected.record = record
        projected.take(changes, row.at)
    if projected is None:
        raise BrokenHistory("there is no event")
    return projected
