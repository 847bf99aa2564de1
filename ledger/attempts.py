"""Counts of refused requests, shared by all processes: one row per subject and window, changed by one statement."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ledger.database import Database
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
        self._pruned_at = time.monotonic()

    async def count(self, windows: Sequence[Window]) -> Standing:
        """Count one attempt in every window. The windows' (subject, seconds) must differ."""
        rows = await self._database.system.fetch(
            _SQL["count"], [each.subject for each in windows], [each.seconds for each in windows]
        )
        counted = {(row["subject"], row["seconds"]): row for row in rows}
        if time.monotonic() - self._pruned_at >= _PRUNE_SECONDS:
            self._pruned_at = time.monotonic()
            await self.prune()
        found = [(each.limit, counted[each.subject, each.seconds]) for each in windows]
        waits = [row["ends_in"] for limit, row in found if row["count"] > limit]
        return Standing(
            remaining=max(0, min(limit - row["count"] for limit, row in found)),
            retry_after_seconds=max(waits) if waits else None,
        )

    async def prune(self) -> None:
        """Delete what counts nothing any more."""
        await self._database.system.execute(_SQL["prune"])
