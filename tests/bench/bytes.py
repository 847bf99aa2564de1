"""What a call takes in the ledger's database: `python -m tests.bench.bytes` (two minutes).

The calls go through the ledger as the service's do: admitted, decided with signed decisions, intended, confirmed and
settled, each of a customer of its own. Counted is what all tables grow by, with their indexes, after a first hundred
and vacuumed as autovacuum would; and the write-ahead log. Seals are a row a second, whatever there is to seal, and are
not counted, nor is what runs and tokens take.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, NamedTuple

import asyncpg
import typer
from rich.console import Console
from rich.table import Table

from activities import reconsidering
from ledger.ledger import Ledger
from ledger.signing import DecisionSigner
from tests.bench.servers import migrated_database
from tests.ledger.histories import DONE, Histories
from tests.ledger.refunds import MASTER, POLICY, Refund, decision, open_ledger

_FIRST, _BATCH = 100, 250
_WRITERS = 4
_SIZES = """
SELECT sum(pg_total_relation_size(c.oid))::bigint AS everything,
       pg_total_relation_size('events') AS events,
       (SELECT count(*) FROM events) AS count,
       pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS wal
FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
"""


class Taken(NamedTuple):
    """Per call: bytes of tables and indexes, of the write-ahead log, and events; and the bytes of an event."""

    stored: float
    logged: float
    events: float
    event: float


async def executed(ledger: Ledger) -> None:
    """Free, and done at once."""
    made = Histories(ledger)
    record = await made.attempt(await Refund(1_000).admit(ledger), DONE)
    assert record.status == "executed", record.code


async def approved(ledger: Ledger) -> None:
    """Parked, approved by one person, and done."""
    made = Histories(ledger)
    refund, request_id = await _decided(made, "approve")
    await made.step(request_id, lambda _, now: reconsidering.intended(POLICY, refund.proposed, now))
    record = await made.attempt(await ledger.calls.read(request_id), DONE)
    assert record.status == "executed", record.code


async def denied(ledger: Ledger) -> None:
    """Parked, and denied."""
    await _decided(Histories(ledger), "deny")


async def _decided(made: Histories, verdict: Any) -> tuple[Refund, str]:
    refund, approval = await made.held()
    said = decision(approval, verdict, reason="The photo shows it")
    token = DecisionSigner(MASTER).sign(said)
    await made.ledger.of(approval.tenant).approvals.decide(said, token)
    return refund, approval.request_id


KINDS: dict[str, Callable[[Ledger], Awaitable[None]]] = {
    "executed at once": executed,
    "approved by a person, and executed": approved,
    "denied": denied,
}


@asynccontextmanager
async def _sizes(database: str) -> AsyncGenerator[Callable[[], Awaitable[asyncpg.Record]]]:
    connection = await asyncpg.connect(database, server_settings={"counterseal.tenant": "*"})

    async def read() -> asyncpg.Record:
        await connection.execute("VACUUM")
        row = await connection.fetchrow(_SIZES)
        assert row is not None
        return row

    try:
        yield read
    finally:
        await connection.close()


async def measure(calls: int) -> dict[str, Taken]:
    """What each kind of call takes, the mean of so many."""
    found: dict[str, Taken] = {}
    async with migrated_database() as database, open_ledger(database) as ledger, _sizes(database) as sizes:
        for name, make in KINDS.items():
            await _many(ledger, make, _FIRST)
            before = after = await sizes()
            for first in range(0, calls, _BATCH):
                await _many(ledger, make, min(_BATCH, calls - first))
                after = await sizes()
            grown = {key: int(after[key] - before[key]) for key in ("everything", "events", "count", "wal")}
            event = grown["events"] / grown["count"]
            found[name] = Taken(grown["everything"] / calls, grown["wal"] / calls, grown["count"] / calls, event)
    return found


async def _many(ledger: Ledger, make: Callable[[Ledger], Awaitable[None]], count: int) -> None:
    async def some(mine: int) -> None:
        for _ in range(mine):
            await make(ledger)

    await asyncio.gather(*(some(count // _WRITERS + (n < count % _WRITERS)) for n in range(_WRITERS)))


def main(calls: Annotated[int, typer.Option(min=_BATCH, help="How many of each kind")] = 1_000) -> None:
    table = Table("a call", "events", "stored", "log", "GB per million", "an event")
    for name, took in asyncio.run(measure(calls)).items():
        row = (f"{took.stored:,.0f}", f"{took.logged:,.0f}", f"{took.stored / 1_000:,.1f}", f"{took.event:,.0f}")
        table.add_row(name, f"{took.events:.0f}", *row)
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
