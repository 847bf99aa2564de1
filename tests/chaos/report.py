"""What a run prints: what was broken and how often, what became of the calls, what does not hold."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from activities.services import CrashPoint
from sandbox.faults import KINDS
from tests.chaos.checking import Violation
from tests.chaos.disturbing import DISTURBANCES
from tests.chaos.evidence import Evidence

CRASH_POINTS: tuple[str, ...] = get_args(CrashPoint)
EVERY_FAULT_FROM = 2000
"""Calls from which on every kind of fault must have been hit."""


@dataclass(frozen=True)
class Report:
    """One run."""

    seed: int
    asked: int
    seconds: float
    evidence: Evidence
    faults: Counter[str]
    disturbed: Counter[str]
    crashes: Counter[str]
    restarts: int
    violations: Sequence[Violation]

    @staticmethod
    def missing(disturbed: Mapping[str, int], crashes: Mapping[str, int]) -> list[str]:
        """What was to go wrong and did not."""
        wanted = (*(each for each in DISTURBANCES if each not in disturbed), *CRASH_POINTS)
        return [each for each in wanted if each not in crashes]

    @property
    def untried(self) -> list[str]:
        """What the run was to break and did not: it proves less than it says."""
        faults = [kind for kind in KINDS if kind not in self.faults] if self.asked >= EVERY_FAULT_FROM else []
        return [*self.missing(self.disturbed, self.crashes), *faults]

    @property
    def passed(self) -> bool:
        return not self.violations and not self.untried

    def lines(self) -> Iterator[str]:
        """The report as text."""
        calls = self.evidence.calls
        yield f"seed {self.seed}: {len(calls)} calls in the ledger, {self.seconds:.0f} s"
        yield from _table("Faults of the gateway that requests ran into", self.faults)
        yield from _table("Processes disturbed", self.disturbed)
        yield from _table("Processes that died at a crash point", self.crashes)
        yield from _table("Calls", Counter(call.status for call in calls))
        yield from _table("Codes", Counter(call.code for call in calls))
        yield from _table("Events", self._events())
        yield from _table("Answers to agents", self._answers())
        yield f"The whole stack was started again {self.restarts} times"
        given_back = sum(not effect.stands for effect in self.evidence.effects)
        yield f"Refunds at the gateway: {len(self.evidence.effects)}, of which {given_back} failed later"
        if self.untried:
            yield f"Not tried: {', '.join(self.untried)}"
        for violation in self.violations:
            yield f"VIOLATION  {violation}"
            yield from self._story(violation)
        yield f"{len(self.violations)} violations; seed {self.seed}"

    def _story(self, violation: Violation) -> Iterator[str]:
        """The events of the call that a violation names, without their content."""
        for call in self.evidence.calls:
            if call.request_id in (violation.subject, violation.detail):
                for event in call.events:
                    exchange = event.body.get("exchange") or {}
                    said = (event.body.get("status"), event.body.get("found"), exchange.get("problem"))
                    yield " ".join(["   ", event.at, event.type, *(str(each) for each in said if each)])

    def _events(self) -> Counter[str]:
        shown = ("limit.hit", "effect.unknown", "effect.reversed", "review.requested", "approval.voided")
        found = Counter(event.type for call in self.evidence.calls for event in call.events)
        resent = sum(len(call.intents) - 1 for call in self.evidence.calls if call.intents)
        return Counter({**{name: found[name] for name in shown}, "sent again under the same key": resent})

    def _answers(self) -> Counter[str]:
        """How often agents got no answer, and every HTTP status that they got."""
        found = Counter("none" for line in self.evidence.agents if line["kind"] == "lost")
        found.update(f"HTTP {line['http']}" for line in self.evidence.agents if line["kind"] == "told")
        return found


def _table(title: str, counted: Mapping[str, int]) -> Iterator[str]:
    yield f"{title}:"
    for name, times in sorted(counted.items()):
        yield f"  {times:6}  {name}"
