"""Bodies go when their time is up, by one statement that the database checks; hashes stay, and the chain holds."""

import dataclasses
import hashlib

import asyncpg
import pytest

from api.pages.story import story
from ledger.chain import EventRow, break_in
from ledger.ledger import Ledger
from ledger.records import CallRecord
from runtime.cli.chains import event_rows
from runtime.stack.postgres import Postgres
from schemas.events import Pruned
from tests.ledger.refunds import Refund, open_ledger

PRUNE = "UPDATE events SET body = NULL, body_hash = sha256(body) WHERE type = 'call.decided'"


async def _old_call(ledger: Ledger, days: int, keep: dict[str, int]) -> CallRecord:
    """A call whose events look as if they were `days` old, with their hashes, and how long the classes are kept."""
    record = await Refund(6_000).admit(ledger)
    async with ledger.system.acquire() as connection:
        for name, keep_days in keep.items():
            await connection.execute("INSERT INTO retention VALUES ($1, $2, 'olga')", name, keep_days)
        await connection.execute("ALTER TABLE events DISABLE TRIGGER USER")
        await connection.execute("UPDATE events SET at = at - make_interval(days => $1)", days)
        await connection.execute("ALTER TABLE events ENABLE TRIGGER USER")
    return record


@pytest.mark.parametrize(
    "keep", [{"call": 30}, {"call.decided": 30}, {"call": 400, "call.decided": 30}], ids=["class", "type", "type first"]
)
async def test_what_is_older_than_its_class_is_kept_may_lose_its_body_alone(
    ledger: Ledger, keep: dict[str, int]
) -> None:
    await _old_call(ledger, 31, keep)
    before = await ledger.system.fetchval("SELECT body FROM events WHERE type = 'call.decided'")
    assert await ledger.system.execute(PRUNE) == "UPDATE 1"
    row = await ledger.system.fetchrow("SELECT body, body_hash FROM events WHERE type = 'call.decided'")
    assert row is not None
    assert (row["body"], row["body_hash"]) == (None, hashlib.sha256(before).digest())


@pytest.mark.parametrize(
    "keep",
    [{}, {"effect": 1}, {"call": 32}, {"call": 1, "call.decided": 32}],
    ids=["no rule", "another class", "not yet", "the type is kept longer"],
)
async def test_what_has_to_be_kept_is_kept(ledger: Ledger, keep: dict[str, int]) -> None:
    await _old_call(ledger, 31, keep)
    with pytest.raises(asyncpg.RaiseError, match="append-only"):
        await ledger.system.execute(PRUNE)


@pytest.mark.parametrize(
    "change",
    [
        "body = NULL, body_hash = sha256('another')",
        "body = NULL",
        "body_hash = sha256(body)",
        "body = 'another'",
        "body = NULL, body_hash = sha256(body), at = now()",
        "body = NULL, body_hash = sha256(body), type = 'call.settled'",
        "body = NULL, body_hash = sha256(body), hash = sha256(hash)",
    ],
)
async def test_pruning_changes_nothing_else(ledger: Ledger, change: str) -> None:
    await _old_call(ledger, 31, {"call": 30})
    with pytest.raises(asyncpg.RaiseError, match="append-only"):
        await ledger.system.execute(f"UPDATE events SET {change} WHERE type = 'call.decided'")


async def test_a_body_that_is_gone_comes_back_as_none(ledger: Ledger) -> None:
    await _old_call(ledger, 31, {"call": 30})
    await ledger.system.execute(PRUNE)
    for change in ("body = 'another', body_hash = NULL", "body_hash = sha256('another')", "body_hash = body_hash"):
        with pytest.raises(asyncpg.RaiseError, match="append-only"):
            await ledger.system.execute(f"UPDATE events SET {change} WHERE type = 'call.decided'")


async def test_the_services_role_cannot_say_itself_what_is_kept(
    ledger: Ledger, database: str, postgres_server: Postgres
) -> None:
    """A temporary table of the same name stands before the real one in a session's search path."""
    await _old_call(ledger, 31, {})
    async with (
        open_ledger(postgres_server.service_url(database.rpartition("/")[2])) as service,
        service.system.acquire() as connection,
    ):
        await connection.execute("CREATE TEMP TABLE retention AS SELECT 'call' AS event_class, 1 AS keep_days")
        with pytest.raises(asyncpg.RaiseError, match="append-only"):
            await connection.execute(PRUNE)


async def test_the_chain_of_a_pruned_call_holds_and_its_story_is_told(ledger: Ledger) -> None:
    await ledger.system.execute("INSERT INTO retention VALUES ('call', 1, 'olga')")
    record = await Refund(6_000).admit(ledger)
    rows = await event_rows(ledger, record.request_id)
    pruned = [_pruned(row) if row.type == "call.decided" else row for row in rows]
    assert break_in(pruned, record.head) is None
    assert break_in([*pruned[:1], dataclasses.replace(pruned[1], body_hash=bytes(32)), *pruned[2:]], record.head)
    assert break_in([*pruned[:1], dataclasses.replace(pruned[1], body_hash=None), *pruned[2:]], record.head)
    async with ledger.system.acquire() as connection:
        await connection.execute("ALTER TABLE events DISABLE TRIGGER USER")
        await connection.execute(PRUNE)
        await connection.execute("ALTER TABLE events ENABLE TRIGGER USER")
    events = await ledger.calls.events(record.request_id)
    assert [type(event) is Pruned for _, event in events] == [False, True, False]
    assert story(events)[1].sentence.startswith("Call decided; what it said was removed")
    assert break_in(await event_rows(ledger, record.request_id), record.head) is None


def _pruned(row: EventRow) -> EventRow:
    assert row.body is not None
    return dataclasses.replace(row, body=None, body_hash=hashlib.sha256(row.body).digest())
