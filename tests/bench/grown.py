"""A ledger that has been in use for a year: copies of one executed call, spread over the days before now."""

import asyncio
from collections.abc import Callable

import asyncpg

from tests.bench.product import Product

_BATCH = 10_000
_CUSTOMERS = 5_000
_DAYS = 330
# What identifies a call is its own; what it is counted by is one of the customers', save what is counted of all.
_OWN = {
    "request_id": "'act_' || md5('r' || g)",
    "workflow_id": "'call/default/issue_refund/' || md5('w' || g)",
    "operation_id": "'op_' || md5('o' || g)",
    "remote_id": "'re_' || md5('e' || g)",
    "run_id": f"'run_' || md5('u' || g % {_CUSTOMERS})",
    "trace_id": "md5('t' || g)",
    "agent_id": f"'grown-agent-' || g % {_CUSTOMERS}",
    "customer_id": f"'cus_grown' || g % {_CUSTOMERS}",
    "recheck_at": "NULL::timestamptz",
    "subject": f"CASE WHEN subject IN ('tenant', 'tool') THEN subject ELSE subject || ':' || g % {_CUSTOMERS} END",
}
_TIMES = ("created_at", "updated_at", "intended_at", "at", "changed_at")


def grow(own: Product, events: int, say: Callable[[str], None]) -> int:
    """Copy the last executed call until the ledger has so many events more; the number of calls. They are sealed when
    this returns."""
    return asyncio.run(_grow(own, events, say))


async def _grow(own: Product, events: int, say: Callable[[str], None]) -> int:
    settings = {"counterseal.tenant": "*", "synchronous_commit": "off"}
    connection = await asyncpg.connect(own.postgres.url(), server_settings=settings)
    try:
        found = await connection.fetchrow(
            "SELECT request_id, n FROM calls WHERE status = 'executed' ORDER BY created_at DESC LIMIT 1"
        )
        assert found is not None
        template, each = found
        calls = events // each
        statements = [await _copying(connection, table, calls) for table in ("calls", "uses", "events")]
        for first in range(0, calls, _BATCH):
            for statement in statements:
                await connection.execute(statement, template, first, min(first + _BATCH, calls) - 1)
            say(f"growing: {min(first + _BATCH, calls) * each:,} of {events:,} events")
        await connection.execute("VACUUM ANALYZE calls, uses, events")
        while left := await connection.fetchval(
            "SELECT (SELECT max(id) FROM events) - coalesce((SELECT max(upper(ids)) - 1 FROM seals), 0)"
        ):
            say(f"growing: {left:,} events are not sealed yet")
            await asyncio.sleep(2)
        return calls
    finally:
        await connection.close()


async def _copying(connection: "asyncpg.Connection[asyncpg.Record]", table: str, calls: int) -> str:
    """The statement that copies the rows of call $1 for the numbers from $2 to $3."""
    names = [
        row["column_name"]
        for row in await connection.fetch(
            "SELECT column_name FROM information_schema.columns WHERE table_name = $1 AND is_identity = 'NO'", table
        )
    ]
    ago = f"make_interval(secs => {_DAYS * 86_400} * (1 - g::float / {calls}))"
    values = [_OWN.get(name) or (f"{name} - {ago}" if name in _TIMES else name) for name in names]
    return (
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values)} FROM {table},"
        " generate_series($2::int, $3::int) g WHERE request_id = $1"
    )
