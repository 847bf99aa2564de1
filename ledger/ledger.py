"""The ledger as one thing to hand around."""

from dataclasses import dataclass

from ledger.admission import Admissions
from ledger.approvals import Approvals
from ledger.calls import Calls
from ledger.data_keys import DataKeys
from ledger.database import Pool
from ledger.keys import MasterKey
from ledger.principals import Principals


@dataclass(frozen=True, slots=True)
class Ledger:
    pool: Pool
    admissions: Admissions
    approvals: Approvals
    calls: Calls
    principals: Principals

    @classmethod
    def over(cls, pool: Pool, master: MasterKey) -> "Ledger":
        keys = DataKeys(master)
        calls = Calls(pool, keys)
        return cls(pool, Admissions(pool, keys, calls), Approvals(pool, keys, calls), calls, Principals(pool))

    async def ready(self) -> bool:
        """Whether the database answers. Raises what the driver raises when it does not."""
        return await self.pool.fetchval("SELECT true") is True
