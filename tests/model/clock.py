"""One clock for Temporal, the database and the sandbox: the machine's, and as far ahead of it as a test says."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import asyncpg

# Functions named like the database's own, in a schema that is searched before its: the service's statements find these.
_SCHEMA = """
CREATE SCHEMA shifted;
CREATE TABLE shifted.clock (ahead interval NOT NULL);
INSERT INTO shifted.clock VALUES ('0');
CREATE FUNCTION shifted.now() RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT pg_catalog.now() + (SELECT ahead FROM shifted.clock)';
CREATE FUNCTION shifted.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT pg_catalog.statement_timestamp() + (SELECT ahead FROM shifted.clock)';
CREATE FUNCTION shifted.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS 'SELECT pg_catalog.clock_timestamp() + (SELECT ahead FROM shifted.clock)';
"""


@dataclass
class Clock:
    """`skew`: how far Temporal's clock is ahead of the database's."""

    database: "asyncpg.Connection[asyncpg.Record]"
    ahead: timedelta = field(default_factory=timedelta)
    skew: timedelta = field(default_factory=timedelta)

    @classmethod
    async def install(cls, url: str) -> "Clock":
        """Give the database of this URL the clock; for connections that are made afterwards."""
        connection = await asyncpg.connect(url)
        await connection.execute(_SCHEMA)
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f"ALTER DATABASE {name} SET search_path = shifted, pg_catalog, public")
        return cls(connection)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def now_us(self) -> int:
        return int(self.now().timestamp() * 1_000_000)

    def temporals(self) -> datetime:
        return self.now() + self.skew

    async def set(self, ahead: timedelta) -> None:
        self.ahead = ahead
        await self.database.execute("UPDATE shifted.clock SET ahead = $1", ahead)

    async def go_to(self, moment: datetime) -> None:
        """Let time pass until `moment`; never backwards."""
        if moment > self.now():
            await self.set(self.ahead + (moment - self.now()))
