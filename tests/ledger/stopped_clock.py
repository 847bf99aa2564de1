"""A database whose clock shows what a test says, and goes on only when it is told to."""

from datetime import datetime, timedelta

import asyncpg

# Functions named like the database's own, in a schema that is searched before its: the service's statements find these.
_SCHEMA = """
CREATE SCHEMA stopped;
CREATE TABLE stopped.clock (at timestamptz NOT NULL);
INSERT INTO stopped.clock VALUES (pg_catalog.now());
CREATE FUNCTION stopped.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT at FROM stopped.clock';
CREATE FUNCTION stopped.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT at FROM stopped.clock';
CREATE FUNCTION stopped.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT at FROM stopped.clock';
"""


class StoppedClock:
    """The clock of connections that are made after it was installed."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connection = connection

    @classmethod
    async def install(cls, url: str) -> "StoppedClock":
        connection = await asyncpg.connect(url)
        await connection.execute(_SCHEMA)
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f"ALTER DATABASE {name} SET search_path = stopped, pg_catalog, public")
        return cls(connection)

    async def set(self, at: datetime) -> None:
        await self._connection.execute("UPDATE stopped.clock SET at = $1", at)

    async def advance(self, by: timedelta) -> None:
        await self._connection.execute("UPDATE stopped.clock SET at = at + $1", by)

    async def close(self) -> None:
        await self._connection.close()
