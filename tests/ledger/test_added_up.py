"""What is added up by the minute is what the uses come to, whatever happens to them and however many do it at once."""

import asyncio
import random
from datetime import timedelta

from activities import reconsidering
from ledger.database import Connection
from ledger.ledger import Ledger
from tests.ledger.conftest import NOON
from tests.ledger.refunds import Refund, new_binding

_ADDED_UP = "SELECT tenant, subject, tool, minute, count, amount FROM uses_by_minute WHERE count <> 0 OR amount <> 0"
_COUNTED = """
SELECT tenant, subject, tool, date_trunc('minute', at, 'UTC') AS minute, count(*) AS count,
       sum(amount)::bigint AS amount
FROM uses WHERE state <> 'released'
  AND (subject IN ('tool', 'tenant') OR subject LIKE 'agent:%' OR subject LIKE '%:agent:%')
GROUP BY 1, 2, 3, 4
"""
_SUBJECTS = ("tool", "tenant", "agent:bot", "unasked:agent:bot", "together:agent:bot", "customer:cus_1", "run:agent")
_INSERT = """
INSERT INTO uses (request_id, tenant, tool, subject, amount, at, changed_at, state)
SELECT 'act_' || $1::int || '_' || n, $2, 'issue_refund', s, $3, $4, $4, $5
FROM unnest($6::text[]) WITH ORDINALITY AS u (s, n)
"""


async def _agree(ledger: Ledger) -> int:
    """How many minutes there are, of which both say the same."""
    added_up = {tuple(row.values()) for row in await ledger.system.fetch(_ADDED_UP)}
    counted = {tuple(row.values()) for row in await ledger.system.fetch(_COUNTED)}
    assert added_up == counted
    return len(counted)


async def test_whatever_is_written_to_uses(ledger: Ledger) -> None:
    chosen = random.Random(11)
    async with ledger.system.acquire() as connection:
        for n in range(60):
            await _write(connection, chosen, n)
            if n % 20 == 19:
                assert await _agree(ledger) > 0
    await ledger.system.execute("DELETE FROM uses")
    assert await _agree(ledger) == 0


async def _write(connection: Connection, chosen: random.Random, n: int) -> None:
    match chosen.choice(["insert", "insert", "release", "spend", "amend", "move", "erase", "delete"]):
        case "insert":
            at = NOON + timedelta(seconds=chosen.randrange(300))
            state, subjects = chosen.choice(["held", "spent", "released"]), chosen.sample(_SUBJECTS, 4)
            await connection.execute(_INSERT, n, "acme", chosen.randrange(500), at, state, subjects)
        case "release":
            await connection.execute("UPDATE uses SET state = 'released' WHERE amount % 3 = $1", n % 3)
        case "spend":
            await connection.execute("UPDATE uses SET state = 'spent' WHERE amount % 2 = $1", n % 2)
        case "amend":
            await connection.execute("UPDATE uses SET amount = amount + 7 WHERE amount % 4 = $1", n % 4)
        case "move":
            await connection.execute("UPDATE uses SET at = at + interval '31 seconds' WHERE amount % 5 = $1", n % 5)
        case "erase":
            await connection.execute(
                "UPDATE uses SET subject = 'erased:' || gen_random_uuid() WHERE amount % 7 = $1", n % 7
            )
        case _:
            await connection.execute("DELETE FROM uses WHERE amount % 11 = $1", n % 11)


async def test_admissions_and_releases_at_once(ledger: Ledger) -> None:
    """Nobody waits in a circle, and nothing is lost."""
    tenant = new_binding().tenant

    async def one(n: int) -> None:
        # Alike in all that is added up; small, and so none is held for a person.
        binding = new_binding(tenant=tenant, agent_id="busy-bot")
        record = await Refund(100 + n, binding=binding).admit(ledger)
        if n % 2:
            step = reconsidering.stopped("all", None)
            await ledger.of(tenant).calls.advance(record.request_id, lambda current, now: step)

    await asyncio.gather(*(one(n) for n in range(40)))
    assert await _agree(ledger) > 0
    live = await ledger.system.fetchval(
        "SELECT sum(count) FROM uses_by_minute WHERE tenant = $1 AND subject = 'tool'", tenant
    )
    assert live == 20
