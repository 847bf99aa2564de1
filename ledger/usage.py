"""How much of what is limited is used, for people to see; admission counts for itself, under its locks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ledger.database import Pool
from ledger.queries import load
from ledger.records import trip_subject
from schemas.subjects import counted_for

_SQL = load("usage")


@dataclass(frozen=True, slots=True)
class Gauge:
    """Something counted for a subject that all calls of a tool have: in the last `seconds` (None: ever), and after the
    breaker of the tool last turned `trips` off."""

    tool: str
    subject: str
    seconds: int | None
    trips: str | None = None


@dataclass(frozen=True, slots=True)
class Used:
    """Live calls, and the minor units that they take."""

    count: int
    amount: int


@dataclass(frozen=True, slots=True)
class Hour:
    """What became of the calls that were asked for in the hour from `hour` on."""

    hour: datetime
    done: int
    open: int
    nothing: int

    @property
    def asked(self) -> int:
        return self.done + self.open + self.nothing


class Usages:
    """What the calls of a tenant have used."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def used(self, tenant: str, gauges: Sequence[Gauge]) -> list[Used]:
        """What each of these shows now, in their order."""
        rows = await self._pool.fetch(
            _SQL["used"],
            tenant,
            list(range(len(gauges))),
            [counted_for(each.subject, each.tool) for each in gauges],
            [each.subject for each in gauges],
            [each.seconds for each in gauges],
            [None if each.trips is None else trip_subject(each.trips) for each in gauges],
            [each.tool for each in gauges],
        )
        return [Used(row["count"], row["amount"]) for row in rows]

    async def hourly(self, tenant: str, tool: str, hours: int) -> list[Hour]:
        """The last so many hours of the clock (UTC), the oldest first and the one that runs last."""
        return [Hour(**row) for row in await self._pool.fetch(_SQL["hourly"], tenant, tool, hours)]
