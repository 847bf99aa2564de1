"""What an attempt or a look means for the call: pure, exhaustive over the outcome types."""

from datetime import datetime, timedelta

from activities.patience import Patience, next_recheck, verdict_on
from ledger.records import CallRecord, Step
from schemas.codes import REGISTRY, Code
from schemas.effects import Absent, AlertKind, Attempt, Confirmed, Effect, Failed, Inspection, ReviewReason, Unknown
from schemas.events import (
    CallSettled,
    EffectConfirmed,
    EffectFailed,
    EffectInspected,
    EffectReversed,
    EffectUnknown,
    Event,
    ReviewRequested,
)
from schemas.replies import Explanation

_RECHECK_AFTER = timedelta(days=1)
_ALERTS: dict[ReviewReason, AlertKind] = {
    "absent": "needs_review",
    "unreadable": "needs_review",
    "found_twice": "found_twice",
}


def after_attempt(effect: Effect, outcome: Attempt, *, done: str, operation: str, watched: bool = False) -> Step:
    """The step that follows an attempt. `done` is the sentence of a confirmed one, `operation` names an unknown one.

    What a gateway documents as "not executed" holds for a first attempt alone: of a repeat it may speak of the repeat
    only. `watched`: the tool's effects may be undone later, so a confirmed one is looked at again.
    """
    match outcome:
        case Confirmed():
            return _confirmed([], effect, outcome, done, watched=watched, now=None)
        case Failed() if effect.attempt == 1:
            return _failed([], effect, outcome)
        case Failed() | Unknown():
            return Step(
                [EffectUnknown(operation_id=effect.operation_id, exchange=outcome.exchange, operation=operation)]
            )


def after_inspection(
    record: CallRecord,
    effect: Effect,
    found: Inspection,
    patience: Patience,
    *,
    may_resend_until: datetime | None,
    now: datetime,
    done: str,
    operation: str,
    watched: bool = False,
) -> Step:
    """The step that follows a look at an outcome that is not known; `now` by the clock that `effect` was timed by.

    Not found once is not absence: until it is, the call stays unknown, and after that too unless a repeat finds out.
    """
    events: list[Event] = []
    if record.status != "outcome_unknown":
        # The worker that sent it was lost before it could say what became of it.
        events.append(EffectUnknown(operation_id=effect.operation_id, exchange=None, operation=operation))
    events.append(EffectInspected(operation_id=effect.operation_id, found=found.kind, exchange=found.exchange))
    match found:
        case Confirmed():
            return _confirmed(events, effect, found, done, watched=watched, now=now)
        case Failed():
            return _failed(events, effect, found)
        case Absent() | Unknown():
            verdict = verdict_on(found, effect, patience, may_resend_until=may_resend_until, now=now)
            if verdict in ("wait", "resend") or record.review == verdict:
                return Step(events)
            asked = needs_review(effect, verdict)
            return Step([*events, *asked.events], asked.alert)


def after_recheck(record: CallRecord, effect: Effect, found: Inspection, *, done: str, now: datetime) -> Step | None:
    """The step that follows another look at an effect that was settled; None when it says nothing new.

    A confirmed effect that its system undid is no longer one: what it took can be taken again. One that happened after
    all, though a person had settled that it had not, counts. Both are said aloud.
    """
    recheck_at = next_recheck(effect, found, now)
    looked = EffectInspected(
        operation_id=effect.operation_id, found=found.kind, exchange=found.exchange, recheck_at=recheck_at
    )
    if record.status == "executed":
        match found:
            case Failed():
                return _reversed(record, effect, found)
            case Confirmed() if found.result != record.details.result:
                said = Explanation(values={"done": done})
                return Step([looked.model_copy(update={"result": found.result, "explanation": said})])
            case Confirmed():
                return Step([looked])
            case Absent():
                return Step([looked], "effect_missing")
            case Unknown():
                return Step([looked], "found_twice" if found.exchange.problem == "found_twice" else None)
    if record.status in ("failed", "refused") and isinstance(found, Confirmed):
        step = _confirmed([looked], effect, found, done, watched=True, now=now)
        return Step(step.events, "effect_after_all")
    if record.status == "failed" and record.recheck_at is not None:
        return Step([looked.model_copy(update={"recheck_at": None}) if found.kind == "failed" else looked])
    return None


def needs_review(effect: Effect, because: ReviewReason) -> Step:
    """The step that hands an unknown outcome over to a person."""
    return Step([ReviewRequested(operation_id=effect.operation_id, because=because)], _ALERTS[because])


def _confirmed(
    events: list[Event], effect: Effect, outcome: Confirmed, done: str, *, watched: bool, now: datetime | None
) -> Step:
    confirmed = EffectConfirmed(
        operation_id=effect.operation_id,
        remote_id=outcome.remote_id,
        result=outcome.result,
        exchange=outcome.exchange,
        remote_at=outcome.remote_at,
    )
    settled = CallSettled(
        status="executed",
        code=Code.OK,
        explanation=Explanation(values={"done": done}),
        result=outcome.result,
        recheck_at=next_recheck(effect, outcome, now or effect.last_sent_at) if watched else None,
    )
    return Step([*events, confirmed, settled])


def _failed(events: list[Event], effect: Effect, outcome: Failed) -> Step:
    code = outcome.code
    failed = EffectFailed(operation_id=effect.operation_id, code=code, exchange=outcome.exchange)
    settled = CallSettled(status=REGISTRY[code].status, code=code, explanation=outcome.explanation)
    return Step([*events, failed, settled])


def _reversed(record: CallRecord, effect: Effect, found: Failed) -> Step:
    undone = EffectReversed(operation_id=effect.operation_id, remote_id=record.remote_id, exchange=found.exchange)
    settled = CallSettled(status="failed", code=Code.REMOTE_REFUSED, explanation=found.explanation)
    return Step([undone, settled], "effect_reversed")
