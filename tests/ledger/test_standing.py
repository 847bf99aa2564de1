"""How the ledger stands, in numbers, over all tenants; each of them by a small query."""

from datetime import timedelta

import pytest

from ledger.ledger import Ledger
from ledger.queries import load
from ledger.standing import OpenCalls, Standing, SwitchedOff, look
from tests.api.parked import ask_for_review, lose_answer
from tests.ledger.refunds import new_binding, parked
from tests.ledger.stopped_clock import StoppedClock

TOOL = "issue_refund"


async def test_nothing_happened_yet(ledger: Ledger) -> None:
    assert await look(ledger.system) == Standing((), (), (), 0, 0, {}, 0, 0)


async def test_what_waits_and_what_is_unknown_is_told_by_tool(ledger: Ledger) -> None:
    for _ in range(3):
        await parked(ledger)
    unknown, reviewed = await parked(ledger), await parked(ledger)
    for each in (unknown, reviewed):
        await lose_answer(ledger, each.request_id)
    await ask_for_review(ledger, reviewed.request_id)
    found = await look(ledger.system)
    (waiting,) = found.approvals
    # An approval stays open until somebody closes it.
    assert (waiting.tool, waiting.waiting) == (TOOL, 5)
    assert 0 <= waiting.oldest < 60 < waiting.due < 90_000
    (calls,) = found.calls
    assert (calls.tool, calls.status, calls.open, calls.reviews) == (TOOL, "outcome_unknown", 2, 1)
    assert 0 <= calls.unmoved <= calls.oldest < 60
    assert found.alerts == {"needs_review": 1}


async def test_an_age_is_that_of_the_oldest(stopped: tuple[Ledger, StoppedClock]) -> None:
    ledger, clock = stopped
    first = await parked(ledger)
    await clock.advance(timedelta(minutes=5))
    await lose_answer(ledger, first.request_id)
    await parked(ledger)
    await clock.advance(timedelta(minutes=5))
    (calls,) = (await look(ledger.system)).calls
    assert calls == OpenCalls(TOOL, "outcome_unknown", 1, 0, oldest=300, unmoved=300)


async def test_switches_are_told_by_kind_and_not_by_name(ledger: Ledger) -> None:
    insert = (
        "INSERT INTO switches (tenant, name, off_at, off_by, reason, deadlines)"
        " VALUES ($1, $2, now(), $3, 'example', 'run')"
    )
    for tenant, name, by in (
        ("a", "agent:x", "olga"),
        ("b", "agent:y", "olga"),
        ("a", "tool:t", "breaker"),
        ("*", "all", "o"),
    ):
        await ledger.system.execute(insert, tenant, name, by)
    found = (await look(ledger.system)).switches
    assert set(found) == {SwitchedOff("agent", False, 2), SwitchedOff("tool", True, 1), SwitchedOff("all", False, 1)}


async def test_events_wait_for_their_seal(ledger: Ledger) -> None:
    await parked(ledger)
    assert (await look(ledger.system)).seal_lag > 0
    await ledger.seals.seal()
    assert (await look(ledger.system)).seal_lag == 0


async def test_a_row_that_does_not_know_of_an_event_is_behind(ledger: Ledger) -> None:
    await parked(ledger)
    approval = await parked(ledger)
    assert (await look(ledger.system)).projection_lag == 0
    await ledger.system.execute("UPDATE calls SET n = n - 1 WHERE request_id = $1", approval.request_id)
    assert (await look(ledger.system)).projection_lag > 0


async def test_notices_that_are_late_or_were_given_up(ledger: Ledger) -> None:
    insert = (
        "INSERT INTO notices (tenant, topic, at, due_at, channel, state, closed_at)"
        " VALUES ('a', 'alert', now(), now() - $1::interval, $2, $3, $4)"
    )
    await ledger.system.execute(insert, timedelta(minutes=9), None, "due", None)
    await ledger.system.execute(insert, timedelta(hours=-9), None, "due", None)
    for days in (0, 2):
        closed = await ledger.system.fetchval("SELECT now() - $1::interval", timedelta(days=days))
        await ledger.system.execute(insert, timedelta(hours=50), "mail", "undelivered", closed)
    found = await look(ledger.system)
    assert found.notices_undelivered == 1
    assert 540 <= found.notices_overdue < 600


@pytest.mark.parametrize("query", ["approvals", "open_calls", "unsealed", "behind"])
async def test_a_look_reads_by_index(ledger: Ledger, query: str) -> None:
    """However much has happened."""
    await parked(ledger)
    async with ledger.system.acquire() as connection, connection.transaction():
        await connection.execute("SET LOCAL enable_seqscan = off")
        given = [1000] if query == "behind" else []
        rows = await connection.fetch("EXPLAIN " + load("standing")[query], *given)
    plan = "\n".join(row[0] for row in rows)
    assert "Seq Scan on events" not in plan
    assert "Seq Scan on calls" not in plan
    assert "Seq Scan on approvals" not in plan


async def test_calls_that_have_ended_are_counted_among_the_newest_alone(ledger: Ledger) -> None:
    """There are ever more of them, and of those that have not ended none is left out."""
    binding = new_binding()
    approvals = [await parked(ledger, binding=binding) for _ in range(5)]
    ended = [each.request_id for each in approvals[:3]]
    await ledger.system.execute("UPDATE calls SET status = 'denied' WHERE request_id = ANY($1)", ended)
    calls = ledger.of(binding.tenant).calls
    assert await calls.counts(binding.tenant, 3) == {"pending_approval": 2, "denied": 1}
    assert await calls.counts(binding.tenant, 10) == {"pending_approval": 2, "denied": 3}
