"""Compares the projections with what the events make them, and makes them so.

A service may run meanwhile. Calls are compared in pages, each in one snapshot of the database; a call that differs is
compared again with its row locked, as whoever writes to it has it, and mended in that transaction.

What only the projections know is never written over: calls whose customer was erased, whose bodies were pruned, or
whose events are of versions that did not say everything. Nor is what may be the last trace of events that are gone.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import asyncpg
from cryptography.exceptions import InvalidTag
from pydantic import ValidationError

from ledger.chain import EventRow, Head, break_in, open_event
from ledger.data_keys import DataKeys, KeyDestroyed
from ledger.database import Connection, Pool
from ledger.folding import BrokenHistory, project, says_all
from ledger.keys import DataKey
from ledger.projections import (
    KEYS,
    SEALED,
    TABLES,
    Difference,
    Row,
    Rows,
    Table,
    as_they_are,
    as_they_should_be,
    differences,
    differing,
    plain_values,
)
from ledger.queries import load
from schemas.events import Event

_SQL = load("rebuilding")
_PAGE = 200

Kept = Literal["erased", "pruned", "older"]
"""Why a call is left as it is: its customer was erased, bodies of its events were pruned, or some are of a version that
did not say everything."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One call. `broken`: why nothing can be made of its events, or nothing should, in one sentence of ours. `mended`:
    its rows are now as they should be."""

    request_id: str
    differences: tuple[Difference, ...] = ()
    kept: Kept | None = None
    broken: str | None = None
    mended: bool = False


class _Gone(Exception):
    """The events do not say what the projections hold; the argument is why (`Kept`)."""

    @property
    def kept(self) -> Kept:
        return self.args[0]


class Rebuilding:
    """Over every tenant's rows."""

    def __init__(self, pool: Pool, keys: DataKeys) -> None:
        self._pool = pool
        self._keys = keys

    async def count(self) -> int:
        """How many calls there are events of."""
        return await self._pool.fetchval(_SQL["count_begun"])

    async def compare(self, *, mend: bool = False, trust_events: bool = False) -> AsyncGenerator[Compared]:
        """Every call, in the order in which they began, then those of which there is no event; `mend`: made as it
        should be. `trust_events`: also where the projections know of events that are not there."""
        async for page in self._pages():
            for each in await self.of(page, trust_events=trust_events):
                if mend and each.differences and each.kept is None and each.broken is None:
                    yield await self._mend(each.request_id, trust_events=trust_events)
                else:
                    yield each

    async def sums(self, *, mend: bool = False) -> int:
        """How many of the sums that limits are counted by (`uses_by_minute`) are not what the uses come to; `mend`:
        were not, until now. The uses are compared first."""
        if not mend:
            return await self._pool.fetchval(_SQL["differing_minutes"])
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(_SQL["lock_minutes"])
            return await connection.fetchval(_SQL["mend_minutes"])

    async def _pages(self) -> AsyncGenerator[list[str]]:
        last = 0
        while rows := await self._pool.fetch(_SQL["begun_after"], last, _PAGE):
            yield [row["request_id"] for row in rows]
            last = rows[-1]["id"]
        after = ""
        while rows := await self._pool.fetch(_SQL["without_events"], after, _PAGE):
            yield [row["request_id"] for row in rows]
            after = rows[-1]["request_id"]

    async def of(self, request_ids: Sequence[str], *, trust_events: bool = False) -> list[Compared]:
        """These calls, compared as one moment of the database has them."""
        async with (
            self._pool.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            events, rows = await self._read(connection, request_ids)
            left = await self._left(connection, events)
            compared: list[Compared] = []
            for each in request_ids:
                found, _ = await self._judge(connection, each, events[each], rows[each], left, trust_events)
                compared.append(found)
            return compared

    async def _left(self, connection: Connection, events: dict[str, list[EventRow]]) -> frozenset[str]:
        """The ids of the keys of these events that were not destroyed."""
        named = {row.key_id for each in events.values() for row in each}
        return frozenset(row["key_id"] for row in await connection.fetch(_SQL["keys_left"], list(named)))

    async def _read(
        self, connection: Connection, request_ids: Sequence[str]
    ) -> tuple[defaultdict[str, list[EventRow]], defaultdict[str, Rows]]:
        """Of each of these calls its events, and its rows as they are."""
        events: defaultdict[str, list[EventRow]] = defaultdict(list)
        for row in await connection.fetch(_SQL["events_of_all"], request_ids):
            events[row["request_id"]].append(EventRow.of(row))
        rows: defaultdict[str, Rows] = defaultdict(dict)
        for table in TABLES:
            found = await connection.fetch(_SQL[table], request_ids)
            keys = await self._keys_of(connection, found) if table in SEALED else {}
            for row in as_they_are(table, found, keys.get):
                request_id = row.pop("request_id") if table == "views" else row["request_id"]
                rows[request_id].setdefault(table, {})[tuple(row[name] for name in KEYS[table])] = row
        return events, rows

    async def _keys_of(self, connection: Connection, rows: Sequence[asyncpg.Record]) -> dict[str, DataKey]:
        found: dict[str, DataKey] = {}
        for key_id in {row["key_id"] for row in rows}:
            try:
                found[key_id] = await self._keys.by_id(connection, key_id)
            except KeyDestroyed:
                continue
        return found

    async def _judge(
        self,
        connection: Connection,
        request_id: str,
        events: list[EventRow],
        are: Rows,
        left: frozenset[str],
        trust_events: bool,
    ) -> tuple[Compared, Rows]:
        """One call compared, and its rows as they should be. `left`: the ids of keys that were not destroyed."""
        if (broken := _unsound(events, are)) is not None and not (trust_events and broken.doubtful):
            return Compared(request_id, broken=broken.sentence), {}
        if not events:
            return Compared(request_id, tuple(differences(request_id, {}, are))), {}
        if any(row.key_id not in left for row in events):
            return Compared(request_id, kept="erased"), {}
        try:
            history = [(row, await self._open(connection, row)) for row in events]
            should = as_they_should_be(project(history), self._keys)
        except _Gone as gone:
            return Compared(request_id, kept=gone.kept), {}
        except BrokenHistory as problem:
            return Compared(request_id, broken=str(problem)), {}
        return Compared(request_id, tuple(differences(request_id, should, are))), should

    async def _open(self, connection: Connection, row: EventRow) -> Event:
        """Raises _Gone and BrokenHistory."""
        if row.body is None:
            raise _Gone("pruned")
        if not says_all(row):
            raise _Gone("older")
        key = await self._keys.by_id(connection, row.key_id)
        try:
            return open_event(row, key)
        except (InvalidTag, ValidationError):
            raise BrokenHistory(f"event {row.n} does not open as what it is said to be") from None

    async def _mend(self, request_id: str, *, trust_events: bool) -> Compared:
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(_SQL["lock_row"], request_id)
            events, rows = await self._read(connection, [request_id])
            are, left = rows[request_id], await self._left(connection, events)
            found, should = await self._judge(connection, request_id, events[request_id], are, left, trust_events)
            if found.kept is None and found.broken is None and found.differences:
                await self._drop(connection, should, are)
                for table in TABLES:
                    await self._put(connection, table, should, are)
                found = Compared(request_id, found.differences, mended=True)
            return found

    async def _drop(self, connection: Connection, should: Rows, are: Rows) -> None:
        """What no event made, before what it refers to."""
        for table in reversed(TABLES):
            for key in are.get(table, {}).keys() - should.get(table, {}).keys():
                await connection.execute(_SQL[f"drop_{table.removesuffix('s')}"], *key)

    async def _put(self, connection: Connection, table: Table, should: Rows, are: Rows) -> None:
        there = are.get(table, {})
        for key, row in should.get(table, {}).items():
            if key in there and not differing(row, there[key]):
                continue
            if table == "calls":
                await connection.execute(_SQL["make_room"], *key, row["workflow_id"], row["operation_id"])
            sealed = await self._sealed(connection, table, row, should)
            await connection.execute(_SQL[f"put_{table.removesuffix('s')}"], *plain_values(table, row), *sealed)

    async def _sealed(self, connection: Connection, table: Table, row: Row, should: Rows) -> tuple[object, ...]:
        """(key id, ciphertext) of a row that has them, under the key that its customer's calls are sealed with now."""
        sealed = SEALED.get(table)
        if sealed is None:
            return ()
        (call,) = should["calls"].values()
        key = await self._keys.for_subject(connection, call["tenant"], call["customer_id"])
        body = cast("str", row[sealed.column].model_dump_json()).encode()
        return key.key_id, key.seal(body, sealed.context(row))


@dataclass(frozen=True, slots=True)
class _Unsound:
    """Why a call's events cannot be built upon. `doubtful`: it may be its row alone that is wrong."""

    sentence: str
    doubtful: bool = False


def _unsound(events: Sequence[EventRow], are: Rows) -> _Unsound | None:
    """Pure. Needs no key."""
    if not events:
        return _Unsound("there is no event of it: they may be gone", doubtful=True)
    problem = break_in(events, Head(events[-1].n, events[-1].hash))
    if problem is not None:
        return _Unsound(problem)
    last = events[-1].n
    for row in are.get("calls", {}).values():
        n: int = row["n"]
        if n > last:
            return _Unsound(f"its row knows of {n} events, and there are {last}: some may be gone", doubtful=True)
        if n < 1 or events[n - 1].hash != row["hash"]:
            return _Unsound(f"its row has another hash than event {n}: events may have been replaced", doubtful=True)
    return None
