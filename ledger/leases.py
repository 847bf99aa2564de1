"""Leases on work that one process at a time does."""

from ledger.database import Database
from ledger.queries import load

_SQL = load("leases")


class Leases:
    """Rows, not session locks: they hold through a connection pooler, and whoever looks sees who leads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, name: str, holder: str, seconds: float) -> int | None:
        """Take the lease, or have it for longer: its term, which grows with each new holder; None: another has it."""
        return await self._database.system.fetchval(_SQL["take"], name, holder, seconds)

    async def give_back(self, name: str, holder: str) -> None:
        """End it, where it is still this holder's."""
        await self._database.system.execute(_SQL["give_back"], name, holder)
