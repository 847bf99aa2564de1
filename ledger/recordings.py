"""Reads what was decided about calls, fast: in the ledger's order, in bounded memory, no more of each than is used."""

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg
import msgspec
from cryptography.exceptions import InvalidTag

from ledger.chain import body_context
from ledger.data_keys import DataKeys
from ledger.database import Connection, Pool
from ledger.keys import DataKey
from ledger.queries import load
from schemas.events import CallDecided
from schemas.recorded import (
    Changed,
    Closed,
    Decision,
    Ended,
    Happened,
    RecordedCall,
    read_amended,
    read_decided,
    read_proposed,
    read_settled,
)

_SQL = load("recordings")
_AT_ONCE = 2_000
# Of so many keys, all are forgotten: they are read again where they are used.
_KEYS = 50_000
_PLAIN = re.compile(r"[A-Za-z0-9_.:/-]+")
_ASKED = ("call.proposed", "call.decided")
_CLOSES = {"approval.granted": True, "approval.denied": False, "approval.expired": False, "call.cancelled": False}


@dataclass(slots=True)
class Unread:
    """Calls that could not be read: their customer was erased, their bodies were pruned, or they are not what they
    should be."""

    erased: int = 0
    pruned: int = 0
    broken: int = 0


class Recordings:
    """What was decided, of a tenant or of all of them."""

    def __init__(self, pool: Pool, keys: DataKeys) -> None:
        self._pool = pool
        self._keys = keys

    async def versions(self, since: datetime | None, until: datetime, tenant: str | None) -> dict[str, Any]:
        """The policies that decided calls, and the text of each (JSON); None where it was not kept."""
        rows = await self._pool.fetch(_SQL["versions"], since, until, tenant)
        return {row["version"]: None if row["source"] is None else json.loads(row["source"]) for row in rows}

    async def now(self) -> datetime:
        """By the clock that calls are recorded by."""
        return await self._pool.fetchval(_SQL["clock"])

    async def read(
        self,
        since: datetime | None,
        until: datetime,
        tenant: str | None,
        unread: Unread,
        follows: Callable[[str], bool] = lambda request_id: True,
    ) -> AsyncGenerator[Iterator[Happened]]:
        """What happened to calls that were asked for between these, also what came of those of them that `follows`
        asks for as they come. `unread` is told of those that cannot be read. Each part is to be read to its end."""
        async with (
            self._pool.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            first = 0 if since is None else await connection.fetchval(_SQL["first_since"], since, timeout=None)
            cursor = await connection.cursor(_SQL["happened"], first, until, tenant)
            reading = _Reading(unread, follows)
            while rows := await cursor.fetch(_AT_ONCE):
                await self._fetch_keys(connection, reading, rows)
                yield (each for row in rows if (each := reading.row(row)) is not None)

    async def _fetch_keys(self, connection: Connection, reading: "_Reading", rows: Sequence[asyncpg.Record]) -> None:
        if len(reading.keys) > _KEYS:
            reading.keys.clear()
        missing = {row["key_id"] for row in rows} - reading.keys.keys()
        if missing:
            found = await self._keys.left(connection, missing)
            reading.keys.update({key_id: found.get(key_id) for key_id in missing})


class _Reading:
    """One pass over the rows."""

    def __init__(self, unread: Unread, follows: Callable[[str], bool]) -> None:
        self._follows = follows
        self.keys: dict[str, DataKey | None] = {}
        """None for one that was destroyed."""
        self._unread = unread
        self._proposed: dict[str, RecordedCall] = {}

    def row(self, row: asyncpg.Record) -> Happened | None:
        """What a row says, if anything."""
        tenant, request_id, n, type_, version, at, key_id, sealed = row
        if type_ not in _ASKED and not self._follows(request_id):
            return None
        granted = _CLOSES.get(type_)
        if granted is not None:
            return Closed(at, request_id, granted)
        key = self.keys[key_id]
        if sealed is None or key is None:
            self._lost(type_, erased=key is None)
            return None
        try:
            body = key.open(sealed, _context(tenant, request_id, n, type_, version))
            return self._happened(type_, version, at, request_id, body)
        except (InvalidTag, msgspec.MsgspecError):
            self._lost(type_, broken=True)
            return None

    def _happened(self, type_: str, version: int, at: datetime, request_id: str, body: bytes) -> Happened | None:
        if type_ == "call.proposed":
            self._proposed[request_id] = read_proposed(body).call
        elif type_ == "call.decided":
            call = self._proposed.pop(request_id, None)
            if call is not None:
                return Decision(at, call, read_decided(body), complete=version >= CallDecided.version)
            self._unread.pruned += 1
        elif type_ == "call.settled":
            return Ended(at, request_id, read_settled(body).status == "executed")
        elif (amount := read_amended(body).amount) is not None:
            return Changed(at, request_id, amount)
        return None

    def _lost(self, type_: str, *, erased: bool = False, broken: bool = False) -> None:
        """A call is counted by its decision."""
        if type_ != "call.decided":
            return
        if broken:
            self._unread.broken += 1
        elif erased:
            self._unread.erased += 1
        else:
            self._unread.pruned += 1


def _context(tenant: str, request_id: str, n: int, type_: str, version: int) -> bytes:
    """`body_context`, which for names that need no escaping can be written down."""
    if _PLAIN.fullmatch(tenant + request_id):
        return f'["{tenant}","{request_id}",{n},"{type_}",{version}]'.encode()
    return body_context(tenant, request_id, n, type_, version)
