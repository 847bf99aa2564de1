"""Connections to Postgres: each sees the rows of one tenant, or, where that is said, of every tenant.

Row-level security reads the session's setting `counterseal.tenant`: a tenant's name, or `*` for every tenant. A session
without it sees and writes nothing.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import asyncpg

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]
    _Pool = asyncpg.Pool[asyncpg.Record]
    _Base = asyncpg.Connection[asyncpg.Record]
else:
    Connection = _Pool = object
    _Base = asyncpg.Connection

UNAVAILABLE = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
)
"""What is raised when the database cannot be reached or cannot take a query just now."""

_SETTING = "counterseal.tenant"
_EVERYONE = "*"
_NOBODY = ""


class _Session(_Base):
    """A session that knows whose rows it shows, so that the setting is sent only when it has to change."""

    shows: str | None = None

    def get_reset_query(self) -> str:
        """Nothing to undo when it goes back to the pool: that would cost every request a round trip.

        asyncpg rolls an open transaction back all the same; this package takes locks, cursors and settings only for the
        length of a transaction, save the one setting that `show` keeps account of.
        """
        return ""

    async def show(self, tenant: str) -> None:
        """Show the rows of `tenant` from now on; outside of a transaction, whose rollback would undo it."""
        if self.shows == tenant:
            return
        # A statement that was cancelled or failed may or may not have run.
        self.shows = None
        await self.execute(f"SELECT set_config('{_SETTING}', $1, false)", tenant)
        self.shows = tenant


class Pool:
    """Connections that all see the same tenant's rows, or every tenant's."""

    def __init__(self, pool: _Pool, shows: str) -> None:
        self._pool = pool
        self._shows = shows

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[Connection]:
        """A connection for the length of the block."""
        async with self._pool.acquire() as connection:
            await cast("_Session", connection).show(self._shows)
            yield connection

    async def execute(self, query: str, *arguments: Any) -> str:
        async with self.acquire() as connection:
            return await connection.execute(query, *arguments)

    async def fetch(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        async with self.acquire() as connection:
            return await connection.fetch(query, *arguments)

    async def fetchrow(self, query: str, *arguments: Any) -> asyncpg.Record | None:
        async with self.acquire() as connection:
            return await connection.fetchrow(query, *arguments)

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        async with self.acquire() as connection:
            return await connection.fetchval(query, *arguments)


class Database:
    """Two sets of connections, so that one that a tenant's work runs on never showed every tenant's rows."""

    def __init__(self, everyones: _Pool, tenants: _Pool, reserved: _Pool) -> None:
        self._everyones = everyones
        self._reserved = reserved
        self.reserved = Pool(reserved, _EVERYONE)
        """One connection that is free when all the others are taken: for switches."""
        self._tenants = tenants
        self.system = Pool(everyones, _EVERYONE)
        """Sees every tenant's rows: for what cannot know the tenant yet (finding the holder of a token), and for the
        service's own work (waiting, healing, the command line)."""

    def tenant(self, name: str) -> Pool:
        """Sees and writes this tenant's rows alone. Raises ValueError for a name that no tenant can have."""
        if name in (_NOBODY, _EVERYONE):
            raise ValueError("that is no tenant's name")
        return Pool(self._tenants, name)

    async def is_guarded(self) -> bool:
        """Whether row-level security holds for the role of these connections: superusers pass it by."""
        return await self.system.fetchval(
            "SELECT NOT (rolsuper OR rolbypassrls) FROM pg_roles WHERE rolname = current_user"
        )

    async def close(self) -> None:
        await self._tenants.close()
        await self._everyones.close()
        await self._reserved.close()


async def connect(database_url: str, *, maximum: int = 10) -> Database:
    """A database with at most `maximum` connections (two at least), and one that is kept free. Raises asyncpg's and OS
    errors when it does not answer."""
    # What is asked across tenants are short single statements; the transactions are the tenants'.
    for_everyone = max(1, maximum // 3)
    async with AsyncExitStack() as opened:

        async def pool(size: int, shows: str) -> _Pool:
            made = await _open(database_url, size, shows)
            opened.callback(made.terminate)
            return made

        everyones = await pool(for_everyone, _EVERYONE)
        tenants = await pool(max(1, maximum - for_everyone), _NOBODY)
        reserved = await pool(1, _EVERYONE)
        opened.pop_all()
        return Database(everyones, tenants, reserved)


async def _open(database_url: str, maximum: int, shows: str) -> _Pool:
    async def begin(session: _Base) -> None:
        """Nothing in the URL or the role's defaults says otherwise from here on. Not with what a connection is opened
        with, which poolers refuse."""
        await cast("_Session", session).show(shows)

    return await asyncpg.create_pool(
        database_url,
        min_size=1,
        max_size=maximum,
        command_timeout=30,
        connection_class=_Session,
        init=begin,
    )
