"""What an attempt or an inspection means for the call: pure, exhaustive over the outcome types."""

from ledger.records import CallRecord, Step
from schemas.codes import REGISTRY, Code
from schemas.effects import Absent, Attempt, Confirmed, Effect, Failed, Inspection, Unknown
from schemas.events import (
    CallSettled,
    EffectConfirmed,
    EffectFailed,
    EffectInspected,
    EffectUnknown,
    Event,
)
from schemas.replies import Explanation


def after_attempt(effect: Effect, outcome: Attempt, *, done: str, operation: str) -> Step:
    """The step that follows an attempt. `done` is the sentence of a confirmed one, `operation` names an unknown one."""
    match outcome:
        case Confirmed():
            return _confirmed([], effect, outcome, done)
        case Failed():
            return _failed([], effect, outcome)
        case Unknown():
            event = EffectUnknown(operation_id=effect.operation_id, exchange=outcome.exchange)
            return _unknown([event], operation)


def after_inspection(record: CallRecord, effect: Effect, found: Inspection, *, done: str, operation: str) -> Step:
    """The step that follows a look. Not found once is not absence: the call stays unknown."""
    events: list[Event] = []
    if record.status != "outcome_unknown":
        # The worker that sent it was lost before it could say what became of it.
        events.append(EffectUnknown(operation_id=effect.operation_id, exchange=None))
    events.append(EffectInspected(operation_id=effect.operation_id, found=found.kind, exchange=found.exchange))
    match found:
        case Confirmed():
            return _confirmed(events, effect, found, done)
        case Failed():
            return _failed(events, effect, found)
        case Absent() | Unknown():
            return _unknown(events, operation)


def _confirmed(events: list[Event], effect: Effect, outcome: Confirmed, done: str) -> Step:
    said = Explanation(values={"done": done})
    confirmed = EffectConfirmed(
        operation_id=effect.operation_id,
        remote_id=outcome.remote_id,
        result=outcome.result,
        exchange=outcome.exchange,
    )
    settled = CallSettled(status="executed", code=Code.OK, explanation=said, result=outcome.result)
    return Step([*events, confirmed, settled], "executed", Code.OK, said, outcome.result, uses="spent")


def _failed(events: list[Event], effect: Effect, outcome: Failed) -> Step:
    code, status, said = outcome.code, REGISTRY[outcome.code].status, outcome.explanation
    failed = EffectFailed(operation_id=effect.operation_id, code=code, exchange=outcome.exchange)
    settled = CallSettled(status=status, code=code, explanation=said)
    return Step([*events, failed, settled], status, code, said, uses="released")


def _unknown(events: list[Event], operation: str) -> Step:
    said = Explanation(values={"operation": operation}, operation=operation)
    return Step(events, "outcome_unknown", Code.OUTCOME_UNKNOWN, said)
