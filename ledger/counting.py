"""What is measured of calls as their events are written: how they came to stand, what was hit, sent and decided.

Nothing is asked of the database for it. A transaction that fails after its last statement was counted all the same.
"""

from collections.abc import Sequence

from opentelemetry import metrics

from ledger.records import CallRecord
from schemas.events import (
    ApprovalDenied,
    ApprovalGranted,
    ApprovalSupported,
    BreakerTripped,
    DecisionRejected,
    EffectConfirmed,
    EffectFailed,
    EffectReversed,
    EffectUnknown,
    Event,
    LimitHit,
)

_meter = metrics.get_meter("counterseal.ledger")
_CALLS = _meter.create_counter(
    "counterseal.calls", unit="{call}", description="How often calls came to stand so, by tool, status and code"
)
_EFFECTS = _meter.create_counter(
    "counterseal.effects", unit="{effect}", description="Effects, by tool and what became of them"
)
_DECISIONS = _meter.create_counter(
    "counterseal.decisions", unit="{decision}", description="People's decisions, by tool and verdict"
)
_LIMITS = _meter.create_counter(
    "counterseal.limit.hits", unit="{call}", description="Calls that a limit of the policy refused, by tool and limit"
)
_TRIPS = _meter.create_counter(
    "counterseal.breaker.trips", unit="{trip}", description="How often a breaker turned its switch off, by tool"
)

_OUTCOMES: dict[type[Event], str] = {
    EffectConfirmed: "confirmed",
    EffectFailed: "failed",
    EffectUnknown: "unknown",
    EffectReversed: "reversed",
}
_VERDICTS: dict[type[Event], str] = {
    ApprovalGranted: "approved",
    ApprovalSupported: "supported",
    ApprovalDenied: "denied",
    DecisionRejected: "rejected",
}


def count(before: CallRecord | None, after: CallRecord, events: Sequence[Event]) -> None:
    """Count a change of a call. Labels are names of the catalogue, the policy and the registries of codes."""
    tool = after.tool
    if before is None or (before.status, before.code) != (after.status, after.code):
        _CALLS.add(1, {"tool": tool, "status": after.status, "code": after.code.value})
    for event in events:
        if (outcome := _OUTCOMES.get(type(event))) is not None:
            _EFFECTS.add(1, {"tool": tool, "outcome": outcome})
        elif (verdict := _VERDICTS.get(type(event))) is not None:
            _DECISIONS.add(1, {"tool": tool, "verdict": verdict})
        elif isinstance(event, LimitHit):
            _LIMITS.add(1, {"tool": tool, "limit": event.limit})
        elif isinstance(event, BreakerTripped):
            _TRIPS.add(1, {"tool": tool})
