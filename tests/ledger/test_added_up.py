"""What is added up by the minute is what the uses come to, whatever happens to them and however many do it at once."""

import asyncio
import random
from datetime import datetime, timedelta
from typing import NamedTuple

from activities import reconsidering
from ledger.admission import Usage, Window
from ledger.database import Connection
from ledger.ledger import Ledger
from ledger.queries import load
from schemas.subjects import counted_for
from tests.ledger.conftest import NOON
from tests.ledger.refunds import Refund, new_binding
from tests.ledger.stopped_clock import StoppedClock

_REBUILDING = load("rebuilding")
_ADDED_UP = "SELECT tenant, subject, tool, minute, count, amount FROM uses_by_minute WHERE count <> 0 OR amount <> 0"
_COUNTED = """
SELECT tenant, subject, tool, date_trunc('minute', at, 'UTC') AS minute, count(*) AS count,
       sum(amount)::bigint AS amount
FROM uses WHERE state <> 'released'
  AND (subject IN ('tool', 'tenant') OR subject LIKE 'agent:%' OR subject LIKE '%:agent:%')
GROUP BY 1, 2, 3, 4
"""
_BLOCKED = """
SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
WHERE d.datname = current_database() AND NOT l.granted
"""
_SUBJECTS = ("tool", "tenant", "agent:bot", "unasked:agent:bot", "together:agent:bot", "customer:cus_1", "run:agent")
_INSERT = """
INSERT INTO uses (request_id, tenant, tool, subject, amount, at, changed_at, state)
SELECT 'act_' || $1::int || '_' || n, $2, 'issue_refund', s, $3, $4, $4, $5
FROM unnest($6::text[]) WITH ORDINALITY AS u (s, n)
"""
_TRIPS = "breaker:tool:issue_refund"


class _Use(NamedTuple):
    request_id: str
    subject: str
    amount: int
    at: datetime
    state: str


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


async def test_mending_beside_what_is_written(ledger: Ledger) -> None:
    """What was wrong is right, what is admitted and released meanwhile is counted once, of two menders one mends."""
    tenant = new_binding().tenant
    await _admit(ledger, tenant, 0)
    await ledger.system.execute("UPDATE uses_by_minute SET count = count - 1, amount = amount + 9")
    wrong = await ledger.rebuilding.sums()
    assert wrong > 0
    async with ledger.system.acquire() as connection, connection.transaction():
        await connection.execute(_REBUILDING["lock_minutes"])
        assert await connection.fetchval(_REBUILDING["mend_minutes"]) == wrong
        second = asyncio.create_task(ledger.rebuilding.sums(mend=True))
        async with asyncio.timeout(30):
            while not await connection.fetchval(_BLOCKED):
                await asyncio.sleep(0.01)
    assert await second == 0
    await ledger.system.execute("UPDATE uses_by_minute SET count = count - 1, amount = amount + 9")
    await asyncio.gather(*(_admit(ledger, tenant, n) for n in range(1, 21)), ledger.rebuilding.sums(mend=True))
    assert await ledger.rebuilding.sums() == 0
    assert await _agree(ledger) > 0


async def _admit(ledger: Ledger, tenant: str, n: int) -> None:
    """A call that is alike in all that is added up; small, and so not held for a person. Every other one comes to
    nothing."""
    record = await Refund(100 + n, binding=new_binding(tenant=tenant, agent_id="busy-bot")).admit(ledger)
    if n % 2:
        step = reconsidering.stopped("all", None)
        await ledger.of(tenant).calls.advance(record.request_id, lambda current, now: step)


async def test_admissions_and_releases_at_once(ledger: Ledger) -> None:
    """Nobody waits in a circle, and nothing is lost."""
    tenant = new_binding().tenant
    await asyncio.gather(*(_admit(ledger, tenant, n) for n in range(40)))
    assert await _agree(ledger) > 0
    live = await ledger.system.fetchval(
        "SELECT sum(count) FROM uses_by_minute WHERE tenant = $1 AND subject = 'tool'", tenant
    )
    assert live == 20


async def test_a_window_is_what_its_uses_come_to_wherever_it_begins(stopped: tuple[Ledger, StoppedClock]) -> None:
    """On the border of a minute, a microsecond before or after it, or within; after a trip or without one; and what is
    in the way is the newest use that does not fit beside those after it."""
    ledger, clock = stopped
    chosen = random.Random(5)
    binding = new_binding(tenant="acme", agent_id="bot")
    uses: list[_Use] = []
    for n in range(300):
        subject = _TRIPS if n % 75 == 0 else chosen.choice(_SUBJECTS)
        state = chosen.choice(["held", "spent", "released"])
        uses.append(_Use(f"act_{n}", subject, chosen.randrange(1000), _moment(chosen, 10), state))
    async with ledger.system.acquire() as connection:
        for use in uses:
            tool = counted_for(use.subject, "issue_refund")
            columns = (use.request_id, "acme", tool, use.subject, use.amount, use.at, use.at, use.state)
            await connection.execute("INSERT INTO uses VALUES ($1, $2, $3, $4, $5, $6, $7, $8)", *columns)
    call = Refund(100, binding=binding).proposed.call
    for _ in range(80):
        now = _moment(chosen, 12)
        await clock.set(now)
        windows = [
            Window(
                subject,
                subject,
                chosen.choice([None, 1, 59, 60, 61, 300, 3600]),
                room=chosen.choice([None, 0, 3, 500, 5000]),
                of_amounts=chosen.random() < 0.5,
                trips=chosen.choice([None, "tool:issue_refund"]),
            )
            for subject in _SUBJECTS
        ]
        reads = await ledger.of("acme").admissions.preview(call, windows, None, now)
        assert reads.usage == {each.name: _used(each, uses, now) for each in windows}


def _moment(chosen: random.Random, minutes: int) -> datetime:
    border = timedelta(minutes=chosen.randrange(minutes))
    within = timedelta(microseconds=chosen.choice([0, 0, -1, 1, chosen.randrange(60_000_000)]))
    return NOON + border + within


def _used(window: Window, uses: list[_Use], now: datetime) -> Usage:
    """Counted one by one."""
    begins = [] if window.seconds is None else [now - timedelta(seconds=window.seconds)]
    if window.trips is not None:
        begins += [each.at for each in uses if each.subject == _TRIPS and each.state != "released"]
    live = [
        each
        for each in uses
        if each.subject == window.subject and each.state != "released" and (not begins or each.at > max(begins))
    ]
    kept, in_the_way = 0, None
    for each in sorted(sorted(live, key=lambda use: use.request_id), key=lambda use: use.at, reverse=True):
        kept += each.amount if window.of_amounts else 1
        if window.room is not None and kept > window.room:
            in_the_way = each.at
            break
    return Usage(len(live), sum(each.amount for each in live), in_the_way)
