"""Where a whole database stands: what a backup says of itself, and a restored one has to say again."""

from collections.abc import Sequence
from typing import Any

import asyncpg

from ledger.database import Connection
from ledger.queries import load

_SQL = load("backups")


class NoLedger(Exception):
    """The database has none in it."""


async def export_snapshot(connection: Connection) -> str:
    """What this transaction sees, for another connection to see the same while it lasts."""
    return await connection.fetchval(_SQL["snapshot"])


async def tables(connection: Connection) -> list[str]:
    """The names of all there are."""
    return [name for (name,) in await connection.fetch(_SQL["tables"])]


async def missing_roles(connection: Connection, names: Sequence[str]) -> list[str]:
    """Those that the server does not have."""
    return [name for (name,) in await connection.fetch(_SQL["missing"], names)]


async def standing(connection: Connection) -> dict[str, Any]:
    """Which ledger it is, how far it goes, who has rights in it, and how many rows each table has, in one transaction
    or while nobody writes. Raises NoLedger."""
    try:
        position = await connection.fetchrow(_SQL["position"])
    except asyncpg.UndefinedTableError:
        raise NoLedger from None
    assert position is not None  # it selects no rows, only values
    # The names come from the catalogue.
    rows = {name: await connection.fetchval(f'SELECT count(*) FROM "{name}"') for name in await tables(connection)}  # noqa: S608
    grantees = [name for (name,) in await connection.fetch(_SQL["grantees"])]
    return {**position, "events": rows["events"], "grantees": grantees, "rows": rows}
