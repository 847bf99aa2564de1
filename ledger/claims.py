"""Who is reading which approval, so that two people do not read the same one.

Advice, and no lock: the ledger's chain does not have it, and nothing that makes a decision valid rests on it.
"""

from collections.abc import Collection, Sequence
from datetime import timedelta

import asyncpg

from ledger.database import Connection, Pool
from ledger.queries import load
from schemas.decisions import ClaimedBy

_SQL = load("claims")

LASTS = timedelta(minutes=15)
"""How long a claim stands that is not renewed."""


class Claims:
    """The claims of the ledger."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def claim(
        self, tenant: str, approval_id: str, username: str, *, names: Collection[str], take_over: bool
    ) -> ClaimedBy | None:
        """Claim what waits, or claim it for longer; from somebody else only where `take_over` says so. `names`: the
        person's usernames.

        Whoever has it then; None where it waits no more, or is none of the tenant's.
        """
        async with self._pool.acquire() as connection:
            await connection.execute(
                _SQL["claim"], approval_id, tenant, username, LASTS.total_seconds(), list(names), take_over
            )
            return (await claims_on(connection, [approval_id])).get(approval_id)

    async def release(self, tenant: str, approval_id: str, names: Collection[str] | None = None) -> None:
        """End a claim, if it is that of the person with these usernames; None: whoever's it is."""
        await self._pool.execute(_SQL["release"], approval_id, tenant, None if names is None else list(names))


async def claims_on(connection: Connection, approval_ids: Sequence[str]) -> dict[str, ClaimedBy]:
    """Who reads these just now, by approval."""
    rows = await connection.fetch(_SQL["claims_on"], approval_ids) if approval_ids else []
    return {row["approval_id"]: claim for row in rows if (claim := claim_in(row)) is not None}


def claim_in(row: asyncpg.Record) -> ClaimedBy | None:
    """Who reads an approval just now, of a row that says so; None where it says that nobody does."""
    if row["claimed_by"] is None:
        return None
    return ClaimedBy(
        username=row["claimed_by"],
        display_name=row["claimed_name"],
        since=row["claimed_at"],
        until=row["claimed_until"],
    )
