"""What the numbers of a gate say, and how sure that is. Pure.

A gate is a rule that asks a person. The bands are the product's own: a gate that is nearly always approved asks for
nothing, one that is often denied hears what agents should not ask.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from pydantic import JsonValue

from schemas.decisions import Approval

Band = Literal["asks_for_nothing", "healthy", "often_refused"]

NEARLY_ALWAYS = 95
"""Per cent of decisions; more approvals than this, and the gate asks for nothing."""
OFTEN_NOT = 75
"""Per cent of decisions; fewer approvals than this, and agents ask for what people refuse."""
ENOUGH = 20
"""Fewer decisions than this say nothing about a gate."""
CONFIDENCE = 95
"""Per cent: of this many such intervals one expects to hold the true rate."""
WORDS_PER_MINUTE = 300
"""What hardly anybody reads faster than: most adults read 175 to 300 words of English non-fiction a minute, 238 on
average (Brysbaert 2019, "How many words do we read per minute? A review and meta-analysis of reading rate", Journal of
Memory and Language 109, 104047, https://doi.org/10.1016/j.jml.2019.104047)."""

_Z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 200)
_SENTENCES: dict[Band, str] = {
    "asks_for_nothing": "This gate asks for nothing: raise the threshold, or make it a notice.",
    "healthy": "This gate is healthy: people approve most of what it asks, and not all.",
    "often_refused": "Agents ask for what people refuse: tighten the rule, or the agent's instructions.",
}
# Arguments that a person is not shown.
_NOT_SHOWN = frozenset({"idempotency_key"})


def wilson(part: int, whole: int) -> tuple[float, float]:
    """The score interval of a proportion (Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953), as two
    fractions of one. Raises ValueError for what is no proportion."""
    if not 0 <= part <= whole or whole == 0:
        raise ValueError("not a part of a whole")
    square, share = _Z * _Z, part / whole
    middle = share + square / (2 * whole)
    spread = _Z * math.sqrt((share * (1 - share) + square / (4 * whole)) / whole)
    scale = 1 + square / whole
    # It holds the share itself, however the last digits are rounded.
    return max(min((middle - spread) / scale, share), 0.0), min(max((middle + spread) / scale, share), 1.0)


@dataclass(frozen=True, slots=True)
class Rate:
    """`approved` of `decided` (more than none)."""

    approved: int
    decided: int

    @property
    def percent(self) -> float:
        return self.approved * 100 / self.decided

    @property
    def interval(self) -> tuple[float, float]:
        """Per cent between which the true rate is, with CONFIDENCE."""
        low, high = wilson(self.approved, self.decided)
        return low * 100, high * 100

    @property
    def band(self) -> Band:
        """Of the rate as it was counted, whatever its uncertainty; counted in whole numbers, so that a rate on the
        border is not rounded across it."""
        if self.approved * 100 > NEARLY_ALWAYS * self.decided:
            return "asks_for_nothing"
        return "often_refused" if self.approved * 100 < OFTEN_NOT * self.decided else "healthy"

    @property
    def certain(self) -> bool:
        """Whether the whole interval is in the band."""
        low, high = self.interval
        match self.band:
            case "asks_for_nothing":
                return low > NEARLY_ALWAYS
            case "healthy":
                return low >= OFTEN_NOT and high <= NEARLY_ALWAYS
            case "often_refused":
                return high < OFTEN_NOT


@dataclass(frozen=True, slots=True)
class Finding:
    """What a gate's decisions say. No `band` while `missing` decisions are needed to say anything."""

    band: Band | None
    certain: bool
    missing: int
    sentence: str


def finding(approved: int, denied: int) -> Finding:
    """In one sentence what to do about a gate, or how many decisions are missing to say."""
    decided = approved + denied
    missing = max(ENOUGH - decided, 0)
    if missing:
        return Finding(
            None, False, missing, f"Too few decisions to say: {missing} more {'is' if missing == 1 else 'are'} needed."
        )
    rate = Rate(approved, decided)
    sentence = _SENTENCES[rate.band]
    if not rate.certain:
        sentence += " That is not certain yet: more decisions will tell."
    return Finding(rate.band, rate.certain, 0, sentence)


def rounded(interval: tuple[float, float]) -> tuple[int, int]:
    """Whole per cent, outwards: never narrower than the interval is."""
    low, high = interval
    return math.floor(low), math.ceil(high)


def words_to_read(approval: Approval) -> int:
    """How many words of an approval have to be read at least to decide it: its title, why it waits, the values of its
    arguments and facts.

    Names of fields are the same on every card, and known by heart. The agent's own words are not counted: nobody has to
    read them, and no agent shall make a person look hasty.
    """
    unread = _NOT_SHOWN | approval.untrusted.keys()
    asked: JsonValue = {name: value for name, value in approval.arguments.items() if name not in unread}
    texts = [approval.title, approval.because, *_values(asked), *_values(approval.facts)]
    return sum(len(each.split()) for each in texts)


def _values(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _values(each)
    elif isinstance(value, list):
        for each in value:
            yield from _values(each)
    else:
        yield str(value)
