"""Which policies were in force, and from when on."""

from ledger.data_keys import DataKeys
from ledger.database import Pool
from ledger.queries import load
from ledger.streams import append, last_of, recorded
from schemas.events import PolicyPublished
from schemas.switches import EVERYONE

_SQL = load("policies")
STREAM = f"policies/{EVERYONE}"


class Policies:
    """The policies that processes decided by; one holds for everyone."""

    def __init__(self, pool: Pool, keys: DataKeys) -> None:
        self._pool = pool
        self._keys = keys

    async def publish(self, version: str, source: str, *, by: str) -> bool:
        """Say that a process decides by this policy; whether another one was the last. `source` is its text."""
        async with recorded(self._pool, self._keys, EVERYONE) as connection:
            last = await last_of(connection, self._keys, STREAM)
            if isinstance(last, PolicyPublished) and last.policy_version == version:
                return False
            await connection.execute(_SQL["publish_policy"], version, source)
            event = PolicyPublished(policy_version=version, by=by)
            await append(connection, self._keys, EVERYONE, STREAM, [event])
            return True
