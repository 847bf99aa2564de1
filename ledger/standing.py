"""How the ledger of all tenants stands now, in numbers: what waits, what is unknown, what is behind."""

from dataclasses import dataclass

import asyncpg

from ledger.database import Pool
from ledger.queries import load
from ledger.records import BREAKER

_SQL = load("standing")
# So many of the newest events are compared with the rows of their calls.
_COMPARED = 1000


@dataclass(frozen=True, slots=True)
class Waiting:
    """Of one tool: what waits for a person. Ages in seconds; `due` until the next deadline, negative when it passed."""

    tool: str
    waiting: int
    oldest: float
    due: float


@dataclass(frozen=True, slots=True)
class OpenCalls:
    """Of one tool and status: calls that are not settled. Ages in seconds: `oldest` since its effect was sent,
    `unmoved` since anything happened to the one that moved least."""

    tool: str
    status: str
    open: int
    reviews: int
    oldest: float
    unmoved: float


@dataclass(frozen=True, slots=True)
class SwitchedOff:
    """How many switches of a kind (`tool`, `agent` …) are off; `tripped`: those that a breaker turned off."""

    kind: str
    tripped: bool
    off: int


@dataclass(frozen=True, slots=True)
class Standing:
    """What a look found. Lags in seconds, 0 where there is none; alerts by kind."""

    approvals: tuple[Waiting, ...]
    calls: tuple[OpenCalls, ...]
    switches: tuple[SwitchedOff, ...]
    notices_undelivered: int
    notices_overdue: float
    alerts: dict[str, int]
    seal_lag: float
    projection_lag: float


async def look(pool: Pool) -> Standing:
    """One small query for each, on indexes of what is open alone; `pool` sees every tenant's rows. Raises what the
    driver raises."""
    async with pool.acquire() as connection:
        approvals = await connection.fetch(_SQL["approvals"])
        calls = await connection.fetch(_SQL["open_calls"])
        switches = await connection.fetch(_SQL["switches"], BREAKER)
        notices = await connection.fetchrow(_SQL["notices"])
        alerts = await connection.fetch(_SQL["alerts"])
        unsealed = await connection.fetchval(_SQL["unsealed"])
        behind = await connection.fetchval(_SQL["behind"], _COMPARED)
    return Standing(
        approvals=tuple(Waiting(**row) for row in approvals),
        calls=tuple(OpenCalls(**row) for row in calls),
        switches=tuple(SwitchedOff(**row) for row in switches),
        notices_undelivered=_of(notices, "undelivered"),
        notices_overdue=_of(notices, "overdue"),
        alerts={row["kind"]: row["open"] for row in alerts},
        seal_lag=max(0.0, unsealed),
        projection_lag=max(0.0, behind),
    )


def _of(row: asyncpg.Record | None, name: str) -> int:
    return 0 if row is None else row[name]
