"""Counts of refused requests, shared by all processes: one row per subject and window, changed by one statement."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ledger.database import Database
from ledger.gathering import Gathered
from ledger.queries import load

_SQL = load("attempts")
_PRUNE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Window:
    """At most `limit` attempts of a subject in each `seconds`; windows begin at multiples of their length."""

    subject: str
    seconds: int
    limit: int


@dataclass(frozen=True, slots=True)
class Standing:
    """After an attempt: how many more are within the limits, and when over one, the seconds until none is exceeded."""

    remaining: int
    retry_after_seconds: int | None


class Attempts:
    """Attempts that failed. Subjects are few: each is made from a row of ours or from one of 65,536 network slots."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counts = Gathered(self._count)
        self._pruned_at = time.monotonic()

    async def count(self, windows: Sequence[Window]) -> Standing:
        """Count one attempt in every window. The windows' (subject, seconds) must differ."""
        standing = await self._counts.ask(windows)
        if time.monotonic() - self._pruned_at >= _PRUNE_SECONDS:
            self._pruned_at = time.monotonic()
            await self.prune()
        return standing

    async def _count(self, attempts: Sequence[Sequence[Window]]) -> list[Standing]:
        """Count each attempt in its windows; where each then stands, as if one had been counted after the other."""
        asked = Counter((each.subject, each.seconds) for windows in attempts for each in windows)
        rows = await self._database.system.fetch(
            _SQL["count"], [subject for subject, _ in asked], [seconds for _, seconds in asked], list(asked.values())
        )
        ends = {(row["subject"], row["seconds"]): row["ends_in"] for row in rows}
        count = {(row["subject"], row["seconds"]): row["count"] for row in rows}
        count = {key: after - asked[key] for key, after in count.items()}
        standings: list[Standing] = []
        for windows in attempts:
            for each in windows:
                count[each.subject, each.seconds] += 1
            found = [(each.limit, (each.subject, each.seconds)) for each in windows]
            waits = [ends[key] for limit, key in found if count[key] > limit]
            standings.append(
                Standing(
                    remaining=max(0, min(limit - count[key] for limit, key in found)),
                    retry_after_seconds=max(waits) if waits else None,
                )
            )
        return standings

    async def prune(self) -> None:
        """Delete what counts nothing any more."""
        await self._database.system.execute(_SQL["prune"])
