"""The inbox: what waits for people, found and counted by what they filter by."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import asyncpg

from ledger.approvals import Approvals
from ledger.cards import FLOOD, order_indexes
from ledger.data_keys import DataKeys
from ledger.database import Pool
from ledger.people import ANY, Standing, names_of
from ledger.queries import load
from schemas.decisions import Approval
from schemas.money import Money

_SQL = load("inbox")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose decision things wait for: the account, their names (normalised), the groups that they decide for, and as
    `group/tool` those that they decide for with one tool.

    It finds what somebody may look at to decide; whether they may is `objection_to`'s to say.
    """

    username: str
    names: tuple[str, ...]
    groups: tuple[str, ...]
    by_tool: tuple[str, ...]

    @classmethod
    def of(cls, username: str, standing: Standing) -> "Whose":
        groups, by_tool = set[str](), set[str]()
        for theirs in (standing, *(each.standing for each in standing.lent)):
            grants = [each for each in theirs.grants if each.role in theirs.roles]
            groups |= theirs.roles - {each.role for each in grants}
            groups |= {each.role for each in grants if each.tool == ANY}
            by_tool |= {f"{each.role}/{each.tool}" for each in grants if each.tool != ANY}
        names = standing.names | names_of(username)
        return cls(username, tuple(sorted(names)), tuple(sorted(groups)), tuple(sorted(by_tool)))


@dataclass(frozen=True, slots=True)
class Filter:
    """What to show of what waits; each that is given narrows it. `group` may decide it now, `mine` is theirs to decide,
    `second`: one person approved it and it waits for another."""

    tool: str | None = None
    group: str | None = None
    agent: str | None = None
    mine: bool = False
    second: bool = False
    at_least: Money | None = None


@dataclass(frozen=True, slots=True)
class Flood:
    """An agent of which more than FLOOD calls wait: how many, how many fit the filter, and their first deadline."""

    agent: str
    waiting: int
    fitting: int
    earliest: datetime | None

    @property
    def many(self) -> bool:
        """Whether those that fit are too many to be listed one by one."""
        return self.fitting > FLOOD


@dataclass(frozen=True, slots=True)
class Counts:
    """How much waits, how much of it fits the filter, and what there would be with one choice of the filter changed."""

    waiting: int = 0
    fitting: int = 0
    mine: int = 0
    second: int = 0
    of_any_group: int = 0
    tools: dict[str, int] = field(default_factory=dict[str, int])
    groups: dict[str, int] = field(default_factory=dict[str, int])
    currencies: tuple[str, ...] = ()
    floods: tuple[Flood, ...] = ()


ANYBODY = Whose("", (), (), ())


class Inbox:
    """What waits in the ledger."""

    def __init__(self, pool: Pool, keys: DataKeys, approvals: Approvals) -> None:
        self._pool = pool
        self._keys = keys
        self._approvals = approvals

    async def waiting(
        self,
        tenant: str,
        wanted: Filter,
        whose: Whose = ANYBODY,
        *,
        after: tuple[datetime, str] | None,
        limit: int,
        without: tuple[str, ...] = (),
    ) -> list[Approval]:
        """What waits and fits, oldest deadline first, after a (deadline, id) cursor, without those agents."""
        async with self._pool.acquire() as connection:
            rows = await connection.fetch(
                _SQL["waiting"], *_parameters(tenant, wanted, whose), *(after or (_EPOCH, "")), without, limit
            )
            return await self._approvals.open_all(connection, rows)

    async def counts(self, tenant: str, wanted: Filter, whose: Whose) -> Counts:
        rows = await self._pool.fetch(_SQL["counts"], *_parameters(tenant, wanted, whose), FLOOD)
        by: dict[str, list[asyncpg.Record]] = {}
        for row in rows:
            by.setdefault(row["of"], []).append(row)
        (whole,) = by["all"]
        return Counts(
            whole["waiting"],
            whole["fitting"],
            whole["mine"],
            whole["second"],
            whole["of_any_group"],
            {row["value"]: row["fitting"] for row in by.get("tool", [])},
            {row["value"]: row["fitting"] for row in by.get("group", [])},
            tuple(row["value"] for row in by.get("currency", [])),
            tuple(Flood(row["value"], row["waiting"], row["fitting"], row["earliest"]) for row in by.get("agent", [])),
        )

    async def of_order(self, tenant: str, order_id: str, limit: int) -> list[Approval]:
        """The approvals about an order, what waits first, then the newest."""
        async with self._pool.acquire() as connection:
            rows = await connection.fetch(_SQL["of_order"], tenant, order_indexes(self._keys, tenant, order_id), limit)
            return await self._approvals.open_all(connection, rows)


def _parameters(tenant: str, wanted: Filter, whose: Whose) -> tuple[object, ...]:
    least = wanted.at_least
    return (
        tenant,
        wanted.tool,
        wanted.group,
        wanted.agent,
        wanted.second,
        least.amount if least else None,
        least.currency if least else None,
        wanted.mine,
        whose.groups,
        whose.by_tool,
        whose.names,
        whose.username,
    )
