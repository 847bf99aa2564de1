"""How long what events say is kept, and pruning what is older: bodies alone, never hashes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from ledger.data_keys import DataKeys
from ledger.database import Pool
from ledger.queries import load
from ledger.streams import NO_CUSTOMER, append
from schemas.events import Event, EventsPruned

_SQL = load("retention")
_BATCH = 1_000
_COUNTED = 1_000_000

EVENT_TYPES: tuple[str, ...] = tuple(sorted(each.model_fields["type"].default for each in get_args(get_args(Event)[0])))
EVENT_CLASSES = frozenset(EVENT_TYPES) | {each.partition(".")[0] for each in EVENT_TYPES}
"""What a rule may be about: one type, or all whose type begins with the word before the dot."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Bodies of a class are kept for so many days."""

    event_class: str
    keep_days: int
    set_by: str
    set_at: datetime


def days_by_type(rules: Mapping[str, int]) -> dict[str, int]:
    """Pure. How many days each type is kept that is not kept for ever; a type's own rule counts before its class's."""
    found: dict[str, int] = {}
    for each in EVENT_TYPES:
        days = rules.get(each, rules.get(each.partition(".")[0]))
        if days is not None:
            found[each] = days
    return found


def prunings_of(tenant: str) -> str:
    """Where it is kept what was pruned of a tenant's."""
    return f"retention/{tenant}"


class Rules:
    """What is kept for how long; only the owner of the tables can change it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def all(self) -> list[Rule]:
        """What is not kept for ever."""
        return [Rule(**row) for row in await self._pool.fetch(_SQL["rules"])]

    async def set(self, event_class: str, keep_days: int, *, by: str) -> None:
        """Raises asyncpg's InsufficientPrivilegeError for anyone but the owner."""
        await self._pool.execute(_SQL["set"], event_class, keep_days, by)

    async def unset(self, event_class: str) -> bool:
        """Keep it for ever again; whether it was not."""
        return await self._pool.fetchval(_SQL["unset"], event_class) is not None

    async def due(self, rules: Mapping[str, int]) -> int:
        """How many bodies would go by these rules, (class, days)."""
        found = 0
        for event_type, days in days_by_type(rules).items():
            rows = await self._pool.fetch(_SQL["due"], event_type, days, _COUNTED)
            found += sum(row["count"] for row in rows)
        return found


class Pruner:
    """Prunes what is due. Run by any process, any number of times at once."""

    def __init__(self, pool: Pool, keys: DataKeys) -> None:
        self._pool = pool
        self._keys = keys
        self._rules = Rules(pool)

    async def prune(self) -> int:
        """Make hashes of the bodies whose time is up, with an event that says so on each tenant's stream: how many.

        The time is up at the end of a day (UTC), so that a day's are one event for each type.
        """
        rules = {rule.event_class: rule.keep_days for rule in await self._rules.all()}
        pruned = 0
        for event_type, days in days_by_type(rules).items():
            while (batch := await self._batch(event_type, days)) > 0:
                pruned += batch
                if batch < _BATCH:
                    break
        return pruned

    async def _batch(self, event_type: str, days: int) -> int:
        async with self._pool.acquire() as connection:
            tenants = [row["tenant"] for row in await connection.fetch(_SQL["due"], event_type, days, _BATCH)]
            if not tenants:
                return 0
            for tenant in tenants:
                await self._keys.for_subject(connection, tenant, NO_CUSTOMER)
            async with connection.transaction():
                if not await connection.fetchval(_SQL["try_lock"]):
                    return 0
                rows = await connection.fetch(_SQL["prune"], event_type, days, _BATCH, tenants)
                for row in rows:
                    event = EventsPruned(event_type=event_type, until=row["until"], count=row["count"])
                    await append(connection, self._keys, row["tenant"], prunings_of(row["tenant"]), [event])
        return sum(row["count"] for row in rows)
