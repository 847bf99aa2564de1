"""Connections to Postgres."""

from typing import TYPE_CHECKING

import asyncpg

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]
    Pool = asyncpg.Pool[asyncpg.Record]
else:
    Connection = Pool = object

UNAVAILABLE = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
)
"""What is raised when the database cannot be reached or cannot take a query just now."""


async def connect(database_url: str, *, minimum: int = 1, maximum: int = 10) -> "Pool":
    """A pool of connections. Raises asyncpg's and OS errors when the database does not answer."""
    return await asyncpg.create_pool(database_url, min_size=minimum, max_size=maximum, command_timeout=30)
