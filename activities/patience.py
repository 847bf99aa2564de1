"""When to look again, when to send again under the same key, and when to ask a person. Pure."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from schemas.effects import NOT_INSPECTABLE, Absent, Effect, Inspection, ReviewReason, Unknown

# A repeat must arrive while the gateway still knows the key, also when it is slow on its way.
_MARGIN = timedelta(minutes=5)
_SHORTEST, _LONGEST = timedelta(seconds=1), timedelta(hours=1)
# How old a settled effect is when it is looked at again: banks send refunds back weeks later.
_RECHECKS = tuple(timedelta(days=days) for days in (1, 3, 7, 14, 30))


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an outcome that is not known is left to itself.

    `absence`: so long after it was last sent, an effect that its system does not list is not there. `review`: so long
    after it was first sent, a person is asked when it cannot be looked up. `attempts` is how often at most one effect
    is sent, always under the same key.
    """

    absence: timedelta = timedelta(minutes=5)
    review: timedelta = timedelta(hours=1)
    attempts: int = 5


def verdict_on(
    found: Absent | Unknown, effect: Effect, patience: Patience, *, may_resend_until: datetime | None, now: datetime
) -> Literal["wait", "resend"] | ReviewReason:
    """What follows from a look that did not find out.

    `may_resend_until` is when the system may have forgotten the key; None where the policy wants no repeat.
    """
    if isinstance(found, Unknown):
        if found.exchange.problem == "found_twice":
            return "found_twice"
        nobody_can_look = found.exchange.problem == NOT_INSPECTABLE
        return "unreadable" if nobody_can_look or now - effect.intended_at >= patience.review else "wait"
    if now - effect.last_sent_at < patience.absence:
        return "wait"
    in_time = may_resend_until is not None and now + _MARGIN < may_resend_until
    return "resend" if in_time and effect.attempt < patience.attempts else "absent"


def next_look(effect: Effect, patience: Patience, now: datetime) -> int:
    """Seconds until the next look: ever longer, but one right when absence can first be told."""
    age = now - effect.last_sent_at
    wait = min(max(age, _SHORTEST), _LONGEST)
    if age < patience.absence:
        wait = min(wait, patience.absence - age)
    return max(1, math.ceil(wait.total_seconds()))


def next_recheck(effect: Effect, found: Inspection, now: datetime) -> datetime | None:
    """When a settled effect is looked at again; None for never. One that its system has not completed is not let go."""
    age = now - effect.last_sent_at
    if found.kind == "confirmed" and found.result.get("status") not in (None, "succeeded"):
        return now + min(max(age, _LONGEST), _RECHECKS[0])
    later = next((each for each in _RECHECKS if each > age), None)
    if later is None:
        return None
    return now + _LONGEST if found.kind == "unknown" else effect.last_sent_at + later
