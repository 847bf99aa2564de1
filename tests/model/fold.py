"""The state of a call as its events alone say it: written without a look at how the ledger keeps its projections."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from schemas.effects import Effect
from schemas.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    ApprovalVoided,
    CallCancelled,
    CallSettled,
    EffectConfirmed,
    EffectIntended,
    EffectReversed,
    EffectUnknown,
    Event,
    ReviewConcluded,
    ReviewRequested,
)


@dataclass(frozen=True)
class Folded:
    """Where a call stands. `held`: what it takes is held, spent or released; None for one that takes nothing."""

    status: str = "in_progress"
    code: str = "IN_PROGRESS"
    approval: str | None = None
    uses: str | None = None
    effect: Effect | None = None
    remote_id: str | None = None
    review: str | None = None
    settled: int = 0
    """How often it was."""


def fold(events: Iterable[Event]) -> Folded:
    state = Folded()
    for event in events:
        state = _after(state, event)
    return state


def _after(state: Folded, event: Event) -> Folded:
    match event:
        case ApprovalRequested():
            return replace(state, status="pending_approval", code="PENDING_APPROVAL", approval="open", uses="held")
        case ApprovalGranted():
            return replace(state, status="in_progress", code="IN_PROGRESS", approval="granted")
        case ApprovalDenied():
            return replace(state, approval="denied")
        case ApprovalExpired():
            return replace(state, approval="expired")
        case ApprovalVoided():
            return replace(state, approval="voided")
        case CallCancelled():
            return replace(state, approval="withdrawn")
        case EffectIntended():
            return replace(state, effect=event.effect, uses="held")
        case EffectUnknown():
            return replace(state, status="outcome_unknown", code="OUTCOME_UNKNOWN")
        case ReviewRequested():
            return replace(state, review=event.because)
        case EffectConfirmed():
            return replace(state, remote_id=event.remote_id)
        case ReviewConcluded():
            return replace(state, remote_id=event.remote_id or state.remote_id)
        case EffectReversed():
            return replace(state, uses="released")
        case CallSettled():
            uses = None if state.uses is None else "spent" if event.status == "executed" else "released"
            return replace(
                state, status=event.status, code=event.code.value, uses=uses, review=None, settled=state.settled + 1
            )
        case _:
            return state
