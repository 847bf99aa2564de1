"""What a simulation comes to, in sum. Pure."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

Unreplayed = Literal["older", "no_tool", "not_by_policy"]
"""Why a call is left as it was: it was recorded before all that counted for it was; its tool is no longer there; no
policy decided it."""
Kind = Literal["held", "freed", "refused", "otherwise"]
"""What a change comes to: now a person is asked; it runs without one; it is refused; the same by another rule, or with
a person told or not."""


class Said(NamedTuple):
    """What was decided about a call, as it is compared."""

    verdict: str
    rule: str
    rules: tuple[str, ...]
    code: str | None


class Change(NamedTuple):
    """A call about which the candidate decides otherwise. `amount` in minor units; None where it takes nothing."""

    at: datetime
    request_id: str
    tool: str
    kind: Kind
    then: Said
    now: Said
    amount: int | None
    currency: str | None


def kind_of(then: str, now: str) -> Kind:
    """By the verdicts."""
    if (now in ("free", "notify")) == (then in ("free", "notify")) and (now == "hold") == (then == "hold"):
        return "otherwise"
    return "held" if now == "hold" else "refused" if now == "refuse" else "freed"


@dataclass(slots=True)
class Queue:
    """Calls that wait for a person: `most` at once, and `seconds` that all of them wait together."""

    waiting: int = 0
    most: int = 0
    seconds: float = 0.0

    def join(self) -> None:
        self.waiting += 1
        self.most = max(self.most, self.waiting)

    def leave(self, waited: float) -> None:
        self.waiting -= 1
        self.seconds += waited


@dataclass(slots=True)
class Side:
    """Of what was decided, or of what the candidate decides. `asked`: approvals that are needed, by group of people,
    two for a call that takes two. `money`: minor units by currency that went without a person being asked."""

    verdicts: Counter[str] = field(default_factory=Counter[str])
    asked: Counter[str] = field(default_factory=Counter[str])
    money: Counter[str] = field(default_factory=Counter[str])
    queue: Queue = field(default_factory=Queue)


@dataclass(slots=True)
class Tally:
    """`left`: calls that were not decided again. `trips`: how often the candidate's breaker would have turned its
    switch off where none did; what that would have stopped is not in here."""

    calls: int = 0
    first: datetime | None = None
    last: datetime | None = None
    kinds: Counter[Kind] = field(default_factory=Counter[Kind])
    by_tool: dict[str, Counter[Kind]] = field(default_factory=dict[str, Counter[Kind]])
    by_rule: Counter[tuple[str, str, str, str, str]] = field(default_factory=Counter[tuple[str, str, str, str, str]])
    """(tool, verdict then, rule then, verdict now, rule now) of what changes."""
    left: Counter[Unreplayed] = field(default_factory=Counter[Unreplayed])
    trips: int = 0
    then: Side = field(default_factory=Side)
    now: Side = field(default_factory=Side)

    @property
    def changes(self) -> int:
        return self.kinds.total()

    def changed(self, change: Change) -> None:
        self.kinds[change.kind] += 1
        self.by_tool.setdefault(change.tool, Counter())[change.kind] += 1
        self.by_rule[change.tool, change.then.verdict, change.then.rule, change.now.verdict, change.now.rule] += 1
