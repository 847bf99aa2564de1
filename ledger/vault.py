"""The vault: credentials of remote systems, encrypted under the master key, bound to a system, a tenant and a tool."""

import secrets
import time
from dataclasses import dataclass
from datetime import datetime

import asyncpg
from cryptography.exceptions import InvalidTag

from ledger.database import Database, Pool
from ledger.keys import MasterKey
from ledger.queries import load
from schemas.canonical import canonical
from schemas.switches import EVERYONE, PERMIT

_SQL = load("vault")
_PURPOSE = "credential-vault"
ANY_TOOL = "*"


class VaultLockedError(Exception):
    """An operator has locked the vault: no credential is selected."""


class NoCredentialError(Exception):
    """The vault holds none for this system, tenant and tool."""


class WrongMasterKeyError(Exception):
    """What the vault holds was sealed under another master key, or altered. The only argument is the record's id."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A credential without its secret."""

    credential_id: str
    tenant: str
    system: str
    tool: str
    created_at: datetime
    created_by: str
    retired_at: datetime | None


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read a moment ago; the secret in it is still sealed."""

    row: asyncpg.Record
    until: float


class Sealer:
    """Seals and opens credentials. Each is bound to its record: a sealed secret cannot be moved to another's place."""

    def __init__(self, master: MasterKey) -> None:
        self._master = master

    def seal(self, secret: str, credential_id: str, tenant: str, system: str, tool: str) -> bytes:
        return self._master.seal(_PURPOSE, secret.encode(), canonical([credential_id, tenant, system, tool]))

    def open(self, row: asyncpg.Record) -> str:
        """Raises WrongMasterKeyError."""
        names = ("credential_id", "tenant", "system", "tool")
        try:
            return self._master.open(_PURPOSE, row["sealed"], canonical([row[name] for name in names])).decode()
        except (InvalidTag, ValueError):
            raise WrongMasterKeyError(row["credential_id"]) from None


class Vault:
    """What is in it, put there and taken out of use by operators."""

    def __init__(self, pool: Pool, sealer: Sealer) -> None:
        self._pool = pool
        self._sealer = sealer

    async def put(self, system: str, secret: str, *, by: str, tenant: str = EVERYONE, tool: str = ANY_TOOL) -> str:
        """Keep a credential; it is used from now on in the place of the one before: its record id."""
        credential_id = f"cred_{secrets.token_hex(12)}"
        sealed = self._sealer.seal(secret, credential_id, tenant, system, tool)
        await self._pool.execute(_SQL["put"], credential_id, tenant, system, tool, sealed, by)
        return credential_id

    async def put_once(self, system: str, secret: str, *, by: str) -> None:
        """Keep everyone's credential of a system unless the one in use is this very one."""
        row = await self._pool.fetchrow(_SQL["in_use"], EVERYONE, system, ANY_TOOL)
        if row is not None and self._sealer.open(row) == secret:
            return
        await self.put(system, secret, by=by)

    async def retire(self, credential_id: str) -> bool:
        """Take a credential out of use; whether it was in use. The newest other one that fits takes its place."""
        return await self._pool.fetchval(_SQL["retire"], credential_id) is not None

    async def stored(self) -> list[Stored]:
        """What there is, newest first."""
        return [Stored(**row) for row in await self._pool.fetch(_SQL["stored"])]


class Selection:
    """Selects credentials. What was read counts for a moment, still sealed: locking is acknowledged after as long."""

    def __init__(self, database: Database, sealer: Sealer) -> None:
        self._database = database
        self._sealer = sealer
        self._recent: dict[tuple[str, str, str], _Read] = {}

    async def select(self, tenant: str, system: str, tool: str) -> tuple[str, str]:
        """(record id, secret) of the credential that is bound most closely to this tenant and tool.

        Raises VaultLockedError, NoCredentialError and WrongMasterKeyError.
        """
        key, now = (tenant, system, tool), time.monotonic()
        read = self._recent.get(key)
        if read is None or now >= read.until:
            row = await self._database.tenant(tenant).fetchrow(_SQL["select"], tenant, system, tool)
            if row is None or row["locked"]:
                raise VaultLockedError
            if row["credential_id"] is None:
                raise NoCredentialError
            read = _Read(row, now + PERMIT.total_seconds())
            self._recent = {each: other for each, other in self._recent.items() if other.until > now} | {key: read}
        return read.row["credential_id"], self._sealer.open(read.row)
