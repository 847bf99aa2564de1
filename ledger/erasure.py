"""Erasing a customer: their data keys are destroyed, and what is left in the clear names them no more."""

import hashlib
import secrets
from dataclasses import dataclass

from ledger.admission import customer_lock
from ledger.data_keys import DataKeys
from ledger.database import Pool
from ledger.people import names_of
from ledger.queries import load
from ledger.streams import NO_CUSTOMER, append
from schemas.canonical import canonical
from schemas.events import CustomerErased

_SQL = load("erasure")


class StillOpen(Exception):
    """The customer has calls that have not ended; their request ids are the only argument."""

    @property
    def request_ids(self) -> list[str]:
        return list(self.args[0])


@dataclass(frozen=True, slots=True)
class Extent:
    """How much there is of a customer. `watched` of the calls have an effect that is still looked at again, `runs` are
    those that are open; `open` are the calls that have not ended."""

    calls: int
    watched: int
    approvals: int
    runs: int
    keys: int
    open: tuple[str, ...]

    @property
    def nothing(self) -> bool:
        return not (self.calls or self.runs or self.keys)


def erasures_of(tenant: str) -> str:
    """Where it is kept which customers of a tenant were erased."""
    return f"customers/{tenant}"


def customer_fingerprint(tenant: str, customer_id: str) -> str:
    """Hex SHA-256 by which whoever has the id finds the customer's erasure; it gives nobody the id."""
    return hashlib.sha256(canonical([tenant, "customer", customer_id])).hexdigest()


class Erasures:
    """Erases customers of any tenant."""

    def __init__(self, pool: Pool, keys: DataKeys) -> None:
        self._pool = pool
        self._keys = keys

    async def extent(self, tenant: str, customer_id: str) -> Extent:
        """What erasing would concern."""
        async with self._pool.acquire() as connection:
            row = await connection.fetchrow(_SQL["extent"], tenant, customer_id)
            found = await connection.fetch(_SQL["open_calls"], tenant, customer_id)
        return Extent(**(row or {}), open=tuple(each["request_id"] for each in found))

    async def workflows(self, tenant: str, customer_id: str) -> list[str]:
        """The workflow ids of their calls."""
        return [row["workflow_id"] for row in await self._pool.fetch(_SQL["workflows"], tenant, customer_id)]

    async def erase(self, tenant: str, customer_id: str, *, by: str, reason: str) -> int:
        """Destroy what there is of a customer, in one transaction with the event that says so: how many calls they had.

        Their runs end. Calls and approvals count as erased everywhere at once; a process that has just read one of
        their keys forgets it within `data_keys.KEPT_SECONDS`. Raises StillOpen, and changes nothing then.
        """
        another = f"erased_{secrets.token_hex(8)}"
        async with self._pool.acquire() as connection:
            await self._keys.for_subject(connection, tenant, NO_CUSTOMER)
            async with connection.transaction():
                await connection.execute(_SQL["lock_customer"], customer_lock(tenant, customer_id))
                if found := await connection.fetch(_SQL["open_calls"], tenant, customer_id):
                    raise StillOpen([each["request_id"] for each in found])
                names = sorted(names_of(customer_id))
                calls = await connection.fetchval(_SQL["erase"], tenant, customer_id, another, names)
                erased = CustomerErased(
                    customer=customer_fingerprint(tenant, customer_id), calls=calls, by=by, reason=reason
                )
                await append(connection, self._keys, tenant, erasures_of(tenant), [erased])
        self._keys.forget(tenant, customer_id)
        return calls
