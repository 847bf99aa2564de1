"""The data keys of customers, unwrapped once per process and kept for a while."""

import hmac
from collections.abc import Collection
from typing import TypeVar

import asyncpg
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ledger.database import Connection
from ledger.keys import DataKey, MasterKey, new_data_key
from ledger.queries import load

_SQL = load("keys")
# Of as many keys as this, those that were opened first are let go: there may be more customers than memory.
_KEPT = 10_000
_Name = TypeVar("_Name")


class KeyDestroyed(Exception):
    """The customer was erased: what their key sealed cannot be read any more."""


class DataKeys:
    """Finds or makes the data key of a (tenant, customer)."""

    def __init__(self, master: MasterKey) -> None:
        self._master = master
        self._fingerprints = master.derive("diagnostic-fingerprints")
        self._by_subject: dict[tuple[str, str], DataKey] = {}
        self._by_id: dict[str, DataKey] = {}

    async def for_subject(self, connection: Connection, tenant: str, subject: str) -> DataKey:
        """The key that seals what belongs to this customer of this tenant; made when there is none."""
        known = self._by_subject.get((tenant, subject))
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

    async def by_id(self, connection: Connection, key_id: str) -> DataKey:
        """The key with this id. Raises KeyDestroyed."""
        known = self._by_id.get(key_id)
        if known is not None:
            return known
        row = await connection.fetchrow(_SQL["data_key_by_id"], key_id)
        if row is None:
            raise KeyDestroyed(key_id)
        return self._unwrap(row)

    async def of_ids(self, connection: Connection, key_ids: Collection[str]) -> dict[str, DataKey]:
        """The keys with these ids, in at most one query. Raises KeyDestroyed."""
        found = {key_id: known for key_id in key_ids if (known := self._by_id.get(key_id)) is not None}
        missing = [key_id for key_id in key_ids if key_id not in found]
        rows = await connection.fetch(_SQL["data_keys_by_ids"], missing) if missing else []
        found |= {row["key_id"]: self._unwrap(row) for row in rows}
        for key_id in missing:
            if key_id not in found:
                raise KeyDestroyed(key_id)
        return found

    def fingerprint(self, content: bytes) -> str:
        """Hex HMAC-SHA-256 with a key derived from the master key: only the same content gives it again."""
        return hmac.digest(self._fingerprints, content, "sha256").hex()

    def _unwrap(self, row: asyncpg.Record) -> DataKey:
        key_id: str = row["key_id"]
        if row["wrapped"] is None:
            raise KeyDestroyed(key_id)
        key = DataKey(key_id, AESGCM(self._master.unwrap(row["wrapped"], key_id)))
        _keep(self._by_id, key_id, key)
        return key


def _keep(kept: dict[_Name, DataKey], name: _Name, key: DataKey) -> None:
    kept[name] = key
    if len(kept) > _KEPT:
        del kept[next(iter(kept))]
