"""Who decides for whom, while they are away."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from ledger.data_keys import DataKeys
from ledger.database import Pool
from ledger.queries import load
from ledger.streams import access_of, append, recorded
from schemas.events import DelegationEnded, DelegationMade

_SQL = load("delegations")
LONGEST = timedelta(days=90)
MOST_REASON = 200


@dataclass(frozen=True, slots=True)
class Delegation:
    """`delegate` may decide as `delegator` may, from `starts_at` on and before `ends_at`."""

    delegation_id: str
    tenant: str
    delegator: str
    delegate: str
    starts_at: datetime
    ends_at: datetime
    reason: str
    created_by: str


def is_span(starts_at: datetime, ends_at: datetime, now: datetime) -> bool:
    """Whether it ends after it begins, in the future, and is no longer than LONGEST."""
    return starts_at < ends_at and ends_at > now and ends_at - starts_at <= LONGEST


def whole_days(first: date, last: date) -> tuple[datetime, datetime]:
    """From the beginning of the first day to the end of the last, by UTC. Raises OverflowError."""
    begin = datetime.combine(first, time(), UTC)
    return begin, datetime.combine(last + timedelta(days=1), time(), UTC)


class Delegations:
    """Those that can be seen over a pool: one tenant's, or every tenant's."""

    def __init__(self, pool: Pool, keys: DataKeys) -> None:
        self._pool = pool
        self._keys = keys

    async def lend(
        self,
        tenant: str,
        delegator: str,
        delegate: str,
        starts_at: datetime,
        ends_at: datetime,
        *,
        reason: str,
        by: str,
    ) -> bool:
        """Whether there is such a person of the tenant to lend it to, who is somebody else and may sign in. The span is
        one (`is_span`)."""
        span = (starts_at, ends_at)
        async with recorded(self._pool, self._keys, tenant) as connection:
            made = await connection.fetchval(_SQL["lend"], tenant, delegator, delegate.lower(), *span, reason, by)
            if made is not None:
                event = DelegationMade(
                    delegation_id=str(made),
                    delegator=delegator,
                    delegate=delegate.lower(),
                    starts_at=starts_at,
                    ends_at=ends_at,
                    reason=reason,
                    by=by,
                )
                await append(connection, self._keys, tenant, access_of(tenant), [event])
            return made is not None

    async def revoke(
        self, tenant: str, delegation_id: str, *, delegator: str | None = None, by: str | None = None
    ) -> bool:
        """End one, of `delegator` where given, who ends it unless `by` names another; whether there was one that had
        not ended."""
        async with recorded(self._pool, self._keys, tenant) as connection:
            row = await connection.fetchrow(_SQL["revoke_delegation"], delegation_id, tenant, delegator)
            if row is not None:
                event = DelegationEnded(
                    delegation_id=str(row["delegation_id"]),
                    delegator=row["delegator"],
                    delegate=row["delegate"],
                    by=by or row["delegator"],
                )
                await append(connection, self._keys, tenant, access_of(tenant), [event])
            return row is not None

    async def of(self, tenant: str | None = None, username: str | None = None) -> list[Delegation]:
        """What is lent now or will be: by somebody or to them, or anybody's."""
        rows = await self._pool.fetch(_SQL["delegations"], tenant, username)
        return [Delegation(**row) for row in rows]

    async def tenant_of(self, username: str) -> str | None:
        """Whose account it is; None when there is none."""
        return await self._pool.fetchval(_SQL["tenant_of_account"], username.lower())
