"""The data keys of customers, unwrapped once per process and kept for a while."""

import hmac
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeVar

import asyncpg
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ledger.database import Connection
from ledger.keys import DataKey, MasterKey, new_data_key
from ledger.queries import load

_SQL = load("keys")
# Of as many keys as this, those that were opened first are let go: there may be more customers than memory.
_KEPT = 10_000
KEPT_SECONDS = 60.0
"""How long a process goes by what it read of a key: a key that was destroyed, or another one that is used now, counts
everywhere after as long."""
_Name = TypeVar("_Name")


@dataclass(frozen=True, slots=True)
class _Known:
    key: DataKey
    until: float


class KeyDestroyed(Exception):
    """The customer was erased: what their key sealed cannot be read any more."""


class DataKeys:
    """Finds or makes the data key of a (tenant, customer)."""

    def __init__(self, master: MasterKey) -> None:
        self._master = master
        self._fingerprints = {each.key_id: each.derive("diagnostic-fingerprints") for each in master.keys}
        self._by_subject: dict[tuple[str, str], _Known] = {}
        self._by_id: dict[str, _Known] = {}

    async def for_subject(self, connection: Connection, tenant: str, subject: str) -> DataKey:
        """The key that seals what belongs to this customer of this tenant; made when there is none."""
        known = _recall(self._by_subject, (tenant, subject))
        if known is not None:
            return known
        row = await connection.fetchrow(_SQL["data_key"], tenant, subject)
        if row is None:
            key_id, key = new_data_key()
            await connection.execute(_SQL["insert_data_key"], key_id, tenant, subject, self._master.wrap(key, key_id))
            row = await connection.fetchrow(_SQL["data_key"], tenant, subject)
        if row is None:
            raise KeyDestroyed(subject)
        opened = self._unwrap(row)
        _keep(self._by_subject, (tenant, subject), opened)
        return opened

    async def renew(self, connection: Connection, tenant: str, subject: str) -> bool:
        """Have what is written for this customer from now on sealed with a new key; what was written stays readable.
        Whether there was one.

        In a transaction of its own, for what is sealed with a key that is rolled back is lost. Every process uses the
        new one within `KEPT_SECONDS`.
        """
        async with connection.transaction():
            if await connection.fetchval(_SQL["retire_data_key"], tenant, subject) is None:
                return False
            key_id, key = new_data_key()
            await connection.execute(_SQL["insert_data_key"], key_id, tenant, subject, self._master.wrap(key, key_id))
        self.forget(tenant, subject)
        return True

    def expect(self, tenant: str, subject: str, key_id: str | None) -> None:
        """Go by what was just read of which key is used (None: none): what is known of another is forgotten."""
        known = self._by_subject.get((tenant, subject))
        if known is not None and known.key.key_id != key_id:
            self.forget(tenant, subject)

    def forget(self, tenant: str, subject: str) -> None:
        """Read the customer's key again when it is needed."""
        known = self._by_subject.pop((tenant, subject), None)
        if known is not None:
            self._by_id.pop(known.key.key_id, None)

    async def by_id(self, connection: Connection, key_id: str) -> DataKey:
        """The key with this id. Raises KeyDestroyed."""
        known = _recall(self._by_id, key_id)
        if known is not None:
            return known
        row = await connection.fetchrow(_SQL["data_key_by_id"], key_id)
        if row is None:
            raise KeyDestroyed(key_id)
        return self._unwrap(row)

    async def of_ids(self, connection: Connection, key_ids: Collection[str]) -> dict[str, DataKey]:
        """The keys with these ids, in at most one query. Raises KeyDestroyed."""
        found = await self.left(connection, key_ids)
        for key_id in key_ids:
            if key_id not in found:
                raise KeyDestroyed(key_id)
        return found

    async def left(self, connection: Connection, key_ids: Collection[str]) -> dict[str, DataKey]:
        """Those of these keys that were not destroyed, in at most one query."""
        found = {key_id: known for key_id in key_ids if (known := _recall(self._by_id, key_id)) is not None}
        missing = [key_id for key_id in key_ids if key_id not in found]
        rows = await connection.fetch(_SQL["data_keys_by_ids"], missing) if missing else []
        return found | {row["key_id"]: self._unwrap(row) for row in rows if row["wrapped"] is not None}

    def fingerprint(self, content: bytes) -> str:
        """Hex HMAC-SHA-256 with a key derived from the master key: only the same content gives it again."""
        return next(iter(self.fingerprints(content).values()))

    def fingerprints(self, content: bytes) -> dict[str, str]:
        """What it is or was under each master key, by that key's id, the current one first."""
        return {key_id: hmac.digest(key, content, "sha256").hex() for key_id, key in self._fingerprints.items()}

    def _unwrap(self, row: asyncpg.Record) -> DataKey:
        key_id: str = row["key_id"]
        if row["wrapped"] is None:
            raise KeyDestroyed(key_id)
        key = DataKey(key_id, AESGCM(self._master.unwrap(row["wrapped"], key_id)))
        _keep(self._by_id, key_id, key)
        return key


def _recall(kept: dict[_Name, _Known], name: _Name) -> DataKey | None:
    known = kept.get(name)
    return known.key if known is not None and time.monotonic() < known.until else None


def _keep(kept: dict[_Name, _Known], name: _Name, key: DataKey) -> None:
    kept.pop(name, None)
    kept[name] = _Known(key, time.monotonic() + KEPT_SECONDS)
    if len(kept) > _KEPT:
        del kept[next(iter(kept))]
