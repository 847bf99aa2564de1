"""What candidates said beside the policy in force, and where that was something else."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime

from ledger.chain import body_context
from ledger.data_keys import DataKeys
from ledger.database import Pool
from ledger.periods import Period
from ledger.queries import load
from schemas.decisions import PolicyDecision, ShadowDecision
from schemas.events import CallDecided
from schemas.upcasting import read_event

_SQL = load("shadows")
_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class Beside:
    """A call that a candidate was asked about too."""

    tenant: str
    request_id: str
    tool: str
    at: datetime
    decision: PolicyDecision
    shadow: ShadowDecision

    @property
    def differs(self) -> bool:
        """Whether something else would have become of the call, or the candidate had no answer."""
        return (self.decision.verdict, self.decision.code) != (self.shadow.verdict, self.shadow.code)


class Shadows:
    """Of every tenant."""

    def __init__(self, pool: Pool, keys: DataKeys) -> None:
        self._pool = pool
        self._keys = keys

    async def beside(self, period: Period, tenant: str | None) -> AsyncGenerator[Beside]:
        """In the ledger's order; what was erased is left out."""
        after = 0
        while True:
            async with self._pool.acquire() as connection:
                rows = await connection.fetch(_SQL["decided"], period.since, period.until, tenant, after, _AT_ONCE)
                keys = await self._keys.left(connection, {row["key_id"] for row in rows})
            for row in rows:
                key = keys.get(row["key_id"])
                if key is None:
                    continue
                context = body_context(row["tenant"], row["request_id"], row["n"], row["type"], row["version"])
                event = read_event(row["type"], row["version"], key.open(row["body"], context))
                if isinstance(event, CallDecided) and event.shadow is not None:
                    yield Beside(row["tenant"], row["request_id"], row["tool"], row["at"], event.decision, event.shadow)
            if len(rows) < _AT_ONCE:
                return
            after = rows[-1]["id"]
