"""The protected diagnostics: encrypted accounts of failures and refusals, by request id. No agent route reads them."""

from dataclasses import dataclass
from datetime import datetime

from ledger.calls import Calls, UnknownCall
from ledger.data_keys import DataKeys
from ledger.database import Pool
from ledger.queries import load
from ledger.records import CallRecord, Step
from ledger.streams import NO_CUSTOMER, append
from schemas.canonical import canonical
from schemas.diagnostics import Diagnostic, Token
from schemas.events import DiagnosticOpened

_SQL = load("diagnostics")
_MOST = 1_000
_BATCH = 500
# No customer can have this name.
_NO_CUSTOMER = "/diagnostics"


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose token it is: its record (None: there was none), its tenant, and the customer that its run serves."""

    token: Token | None
    tenant: str | None = None
    customer_id: str | None = None


class Diagnostics:
    """Stores and opens accounts."""

    def __init__(self, pool: Pool, keys: DataKeys, calls: Calls) -> None:
        self._pool = pool
        self._keys = keys
        self._calls = calls

    def fingerprint(self, content: bytes) -> str:
        """Hex HMAC-SHA-256 of a body with a key of ours, so that a short one cannot be found by trying."""
        return self._keys.fingerprint(content)

    async def store(self, diagnostic: Diagnostic, tenant: str, customer_id: str | None = None) -> None:
        """Keep an account, encrypted with the customer's data key, or with the tenant's own without a customer.

        Raises KeyDestroyed when the customer was erased.
        """
        async with self._pool.acquire() as connection:
            key = await self._keys.for_subject(connection, tenant, customer_id or _NO_CUSTOMER)
            context = _context(tenant, diagnostic.request_id)
            body = key.seal(diagnostic.model_dump_json().encode(), context)
            await connection.execute(_SQL["insert_diagnostic"], diagnostic.request_id, tenant, key.key_id, body)

    async def open(self, request_id: str, opened: DiagnosticOpened, *, tenant: str | None) -> list[Diagnostic]:
        """The accounts of a tenant's request, oldest first (`tenant` None: of anyone's).

        That they were opened is recorded first; where there are none, nothing is. Raises KeyDestroyed when the customer
        was erased.
        """
        rows = await self._pool.fetch(_SQL["diagnostics_of"], request_id, tenant, _MOST)
        if not rows:
            return []
        await self._record(rows[-1]["tenant"], request_id, opened)
        found: list[Diagnostic] = []
        async with self._pool.acquire() as connection:
            for row in rows:
                key = await self._keys.by_id(connection, row["key_id"])
                body = key.open(row["body"], _context(row["tenant"], request_id))
                found.append(Diagnostic.model_validate_json(body))
        return found

    async def prune(self, days: int) -> int:
        """Delete what is older than `days`; how many there were."""
        deleted = 0
        while True:
            batch = await self._pool.fetch(_SQL["prune_diagnostics"], days, _BATCH)
            deleted += len(batch)
            if len(batch) < _BATCH:
                return deleted

    async def holder(self, token_hash: bytes) -> Holder:
        """Whose token has this hash, whether or not it still opens anything."""
        row = await self._pool.fetchrow(_SQL["holder_of"], token_hash)
        if row is None:
            return Holder(Token(state="unknown"))
        state = "revoked" if row["revoked"] else "expired" if row["expired"] else "live"
        named = {name: row[name] for name in ("token_id", "kind", "principal", "run_id")}
        return Holder(Token(state=state, **named), row["tenant"], row["customer_id"])

    async def _record(self, tenant: str, request_id: str, opened: DiagnosticOpened) -> None:
        """On the call's own events; for a request that never became a call, on events of its own."""

        def step(record: CallRecord, now: datetime) -> Step:
            return Step([opened])

        try:
            await self._calls.advance(request_id, step)
        except UnknownCall:
            await self._record_apart(tenant, request_id, opened)

    async def _record_apart(self, tenant: str, request_id: str, opened: DiagnosticOpened) -> None:
        async with self._pool.acquire() as connection:
            await self._keys.for_subject(connection, tenant, NO_CUSTOMER)
            async with connection.transaction():
                await append(connection, self._keys, tenant, request_id, [opened])


def _context(tenant: str, request_id: str) -> bytes:
    return canonical([tenant, request_id, "diagnostic"])
