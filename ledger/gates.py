"""How gates do: what was asked of people, what became of it, how long they took, and how much is asked at all."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from ledger.approvals import Queue
from ledger.database import Pool
from ledger.measures import WORDS_PER_MINUTE, Finding, Rate, finding
from ledger.periods import Period
from ledger.queries import load

_SQL = load("gates")
_SECONDS_PER_WORD = 60 / WORDS_PER_MINUTE


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What became of approvals. Each is approved, denied, expired, withdrawn or waiting; `voided` are those of the
    approved that did not hold until they were executed. Of one person it is what they opened or decided: `approved` and
    `denied` are then their own verdicts, and the rest was decided by others.

    `median_seconds` and `p90_seconds` are from the request to the decision, a person's from their first look. Of the
    decisions on the page, `timed` were made after a look, `too_quick` of these before the words could have been read,
    and `unopened` without a look; `through_api` came through the API, which shows nobody a page.
    """

    asked: int
    approved: int
    denied: int
    expired: int
    withdrawn: int
    waiting: int
    voided: int
    median_seconds: float | None
    p90_seconds: float | None
    through_api: int
    unopened: int
    timed: int
    too_quick: int

    @property
    def decided(self) -> int:
        return self.approved + self.denied

    @property
    def by_others(self) -> int:
        return self.asked - self.decided - self.expired - self.withdrawn - self.waiting

    @property
    def rate(self) -> Rate | None:
        """None without a decision."""
        return Rate(self.approved, self.decided) if self.decided else None

    @property
    def finding(self) -> Finding:
        return finding(self.approved, self.denied)


@dataclass(frozen=True, slots=True)
class Gate:
    """One rule of one tool, or with `rule` None all of them together."""

    tool: str
    rule: str | None
    outcomes: Outcomes


@dataclass(frozen=True, slots=True)
class Approver:
    person: str
    outcomes: Outcomes


@dataclass(frozen=True, slots=True)
class Part:
    """Writes that were asked for in the part of the period from `start` on, by what the policy said to them."""

    start: datetime
    held: int
    passed: int
    refused: int

    @property
    def decided(self) -> int:
        return self.held + self.passed + self.refused


@dataclass(frozen=True, slots=True)
class GateReport:
    """`gates`: each tool followed by its rules. `approvers`: by name. `parts`: oldest first, without a gap."""

    period: Period
    total: Outcomes
    gates: tuple[Gate, ...]
    approvers: tuple[Approver, ...]
    parts: tuple[Part, ...]
    queue: Queue

    @property
    def held(self) -> int:
        return sum(each.held for each in self.parts)

    @property
    def decided(self) -> int:
        """Writes that the policy decided in one way or another."""
        return sum(each.decided for each in self.parts)


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Calls of one tool that were asked for in a period: how many, and of them what the policy held and refused and
    what ran."""

    calls: int
    held: int
    refused: int
    executed: int


class Gates:
    """Measures gates."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def report(
        self,
        tenant: str | None,
        period: Period,
        *,
        reads: Collection[str],
        tool: str | None = None,
        groups: Collection[str] | None = None,
    ) -> GateReport:
        """The approvals requested in `period` and what became of them until now, of a tenant or (None) of every one.

        `reads` are the tools that change nothing, which are no gate's to ask about. `groups`: the approver groups whose
        people are named; None names all.
        """
        among = None if groups is None else list(groups)
        async with self._pool.acquire() as connection:
            rows = await connection.fetch(
                _SQL["gates"], tenant, period.since, period.until, tool, among, _SECONDS_PER_WORD
            )
            parts = await connection.fetch(
                _SQL["gated"],
                tenant,
                period.since,
                period.until,
                tool,
                list(reads),
                period.step.total_seconds(),
            )
        read = [(row["tool"], row["rule"], row["person"], _outcomes(row)) for row in rows]
        return GateReport(
            period=period,
            total=next((each for tool, _, person, each in read if tool is None and person is None), _NONE),
            gates=tuple(Gate(tool, rule, each) for tool, rule, _, each in read if tool is not None),
            approvers=tuple(Approver(person, each) for _, _, person, each in read if person is not None),
            parts=tuple(Part(row["start"], row["held"], row["passed"], row["refused"]) for row in parts),
            queue=Queue(parts[0]["waiting"], parts[0]["due_soon"], parts[0]["oldest"]),
        )

    async def calls(self, tenant: str | None, period: Period) -> dict[str, ToolCalls]:
        """By tool, reads too; tools that nobody called are left out."""
        rows = await self._pool.fetch(_SQL["by_tool"], tenant, period.since, period.until)
        return {row["tool"]: ToolCalls(row["calls"], row["held"], row["refused"], row["executed"]) for row in rows}


_NONE = Outcomes(0, 0, 0, 0, 0, 0, 0, None, None, 0, 0, 0, 0)


def _outcomes(row: asyncpg.Record) -> Outcomes:
    return Outcomes(**{name: row[name] for name in Outcomes.__slots__})
