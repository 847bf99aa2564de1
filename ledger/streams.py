"""Events that belong to no call: each kind on a stream of its own, chained as a call's events are."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import astuple
from datetime import datetime, timedelta

import asyncpg

from ledger.chain import GENESIS, EventRow, Head, body_context, extend, opened
from ledger.data_keys import DataKeys
from ledger.database import Connection, Pool
from ledger.queries import load
from schemas.events import Event, Recorded
from schemas.upcasting import read_event

_SQL = load("streams")
# Whose key seals what belongs to no customer; no customer's id has a slash.
NO_CUSTOMER = "/streams"


def denials_of(tenant: str) -> str:
    """Where it is kept what the egress guard refused a tenant's calls."""
    return f"egress/{tenant}"


def decodings_of(tenant: str) -> str:
    """Where it is kept whom Temporal's histories were shown to."""
    return f"histories/{tenant}"


async def append(connection: Connection, keys: DataKeys, tenant: str, stream: str, events: Sequence[Event]) -> None:
    """Append to a stream, in the transaction of `connection`; appends to one stream wait for each other.

    The tenant's key must have been made before (`keys.for_subject(…, NO_CUSTOMER)`) and committed: one that is rolled
    back takes with it what others sealed with it meanwhile.
    """
    key = await keys.for_subject(connection, tenant, NO_CUSTOMER)
    await connection.execute(_SQL["lock_stream"], stream)
    last: asyncpg.Record | None = await connection.fetchrow(_SQL["stream_head"], stream)
    if last is None:
        raise LookupError("the database told no time")
    head = Head(0, GENESIS) if last["n"] is None else Head(last["n"], last["hash"])
    rows, _ = extend(head, events, tenant=tenant, request_id=stream, at=last["now"], key=key)
    for row in rows:
        await connection.execute(_SQL["append_to_stream"], *astuple(row))


def access_of(tenant: str) -> str:
    """Where it is kept who was given what in a tenant: tokens, accounts, passkeys, delegations."""
    return f"access/{tenant}"


@asynccontextmanager
async def recorded(pool: Pool, keys: DataKeys, tenant: str) -> AsyncGenerator[Connection]:
    """A transaction in which something can be changed and appended to a stream of the tenant together."""
    async with pool.acquire() as connection:
        await keys.for_subject(connection, tenant, NO_CUSTOMER)
        async with connection.transaction():
            yield connection


async def last_of(connection: Connection, keys: DataKeys, stream: str) -> Recorded | None:
    """The last event of a stream, which nobody appends to until the transaction ends."""
    await connection.execute(_SQL["lock_stream"], stream)
    found = await connection.fetchrow(_SQL["last_in_stream"], stream)
    if found is None:
        return None
    row = EventRow.of(found)
    return opened(row, (await keys.left(connection, {row.key_id})).get(row.key_id))


class Streams:
    """The streams, written and read outside of any other change."""

    def __init__(self, pool: Pool, keys: DataKeys) -> None:
        self._pool = pool
        self._keys = keys

    async def append(self, tenant: str, stream: str, event: Event) -> None:
        """Append one event in a transaction of its own."""
        async with self._pool.acquire() as connection:
            await self._keys.for_subject(connection, tenant, NO_CUSTOMER)
            async with connection.transaction():
                await append(connection, self._keys, tenant, stream, [event])

    async def all_of(self, streams: Sequence[str]) -> list[tuple[EventRow, Recorded]]:
        """Every event of these streams, as far as they can be read, in the order of time."""
        async with self._pool.acquire() as connection:
            rows = [EventRow.of(found) for found in await connection.fetch(_SQL["events_of_streams"], list(streams))]
            keys = await self._keys.left(connection, {row.key_id for row in rows})
            return [(row, opened(row, keys.get(row.key_id))) for row in rows]

    async def tenants(self) -> list[str]:
        """Everybody who has accounts or tokens."""
        return [row["tenant"] for row in await self._pool.fetch(_SQL["tenants"])]

    async def recent(self, stream: str, since: timedelta, limit: int) -> list[tuple[datetime, Event]]:
        """The newest events of a stream with their times, newest first."""
        async with self._pool.acquire() as connection:
            rows = await connection.fetch(_SQL["recent_in_stream"], stream, since, limit)
            opened: list[tuple[datetime, Event]] = []
            for row in rows:
                key = await self._keys.by_id(connection, row["key_id"])
                context = body_context(row["tenant"], stream, row["n"], row["type"], row["version"])
                opened.append((row["at"], read_event(row["type"], row["version"], key.open(row["body"], context))))
            return opened
