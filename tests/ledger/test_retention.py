"""Bodies go when their time is up, by one statement that the database checks; hashes stay, and the chain holds."""

import asyncio
import dataclasses
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from api.pages.story import story
from ledger.chain import EventRow, break_in
from ledger.ledger import Ledger
from ledger.records import CallRecord
from ledger.retention import Rules, days_by_type, prunings_of
from runtime.cli.chains import event_rows
from runtime.stack.postgres import Postgres
from schemas.events import EventsPruned, Pruned
from tests.ledger.refunds import Refund, new_binding, open_ledger, parked
from tests.ledger.stopped_clock import StoppedClock

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


# Pruning


@pytest.fixture
async def aged(database: str) -> AsyncIterator[tuple[Ledger, CallRecord, CallRecord]]:
    """A ledger with two calls of 40 days ago, one of which still waits for a person."""
    clock = await StoppedClock.install(database)
    await clock.set(datetime.now(UTC) - timedelta(days=40))
    async with open_ledger(database) as opened:
        binding = new_binding(tenant="acme")
        settled = await Refund(50_000, available=10_000, binding=binding).admit(opened)
        waiting = await parked(opened, binding=binding)
        assert await opened.seals.seal()
        await clock.set(datetime.now(UTC))
        yield opened, settled, await opened.calls.read(waiting.request_id)
    await clock.close()


def _bodies(rows: list[EventRow]) -> dict[str, bool]:
    return {row.type: row.body is not None for row in rows}


async def test_what_is_due_is_pruned_and_nothing_else(aged: tuple[Ledger, CallRecord, CallRecord]) -> None:
    ledger, settled, waiting = aged
    before = await event_rows(ledger, settled.request_id)
    assert await ledger.pruner.prune() == 0
    rules = Rules(ledger.system)
    await rules.set("call", 30, by="olga")
    await rules.set("call.settled", 400, by="olga")
    assert await rules.due({"call": 30, "call.settled": 400}) == await rules.due({"call": 39, "call.settled": 41}) == 2
    assert await rules.due({"call": 41}) == 0
    assert await ledger.pruner.prune() == 2
    rows = await event_rows(ledger, settled.request_id)
    assert _bodies(rows) == {"call.proposed": False, "call.decided": False, "call.settled": True}
    assert [row.hash for row in rows] == [row.hash for row in before]
    assert break_in(rows, settled.head) is None
    # Who waits for a person may read what it is about.
    assert set(_bodies(await event_rows(ledger, waiting.request_id)).values()) == {True}
    assert (await ledger.calls.read(settled.request_id)).reply() == settled.reply()
    told = [event for _, event in await ledger.calls.events(prunings_of("acme"))]
    assert [(event.event_type, event.count) for event in told if isinstance(event, EventsPruned)] == [
        ("call.decided", 1),
        ("call.proposed", 1),
    ]
    assert await ledger.pruner.prune() == 0
    assert len(await ledger.calls.events(prunings_of("acme"))) == 2
    await ledger.seals.check()


async def test_once_a_call_has_ended_its_turn_comes(aged: tuple[Ledger, CallRecord, CallRecord]) -> None:
    ledger, _, waiting = aged
    await Rules(ledger.system).set("approval.requested", 30, by="olga")
    assert await ledger.pruner.prune() == 0
    await ledger.approvals.withdraw(waiting.request_id, "support-bot")
    assert await ledger.pruner.prune() == 1
    record = await ledger.calls.read(waiting.request_id)
    assert break_in(await event_rows(ledger, waiting.request_id), record.head) is None


async def test_two_that_prune_at_once_tell_each_body_once(
    aged: tuple[Ledger, CallRecord, CallRecord], database: str
) -> None:
    ledger, settled, _ = aged
    await Rules(ledger.system).set("call", 30, by="olga")
    async with open_ledger(database) as other:
        counts = await asyncio.gather(*(each.pruner.prune() for each in (ledger, other, ledger, other)))
    left = await ledger.pruner.prune()
    told = [event for _, event in await ledger.calls.events(prunings_of("acme"))]
    assert sum(counts) + left == 3 == sum(event.count for event in told if isinstance(event, EventsPruned))
    assert break_in(await event_rows(ledger, settled.request_id), settled.head) is None


async def test_a_pruning_that_fails_halfway_is_none(
    aged: tuple[Ledger, CallRecord, CallRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, settled, _ = aged
    await Rules(ledger.system).set("call", 30, by="olga")

    async def breaks(*_: Any) -> None:
        raise LookupError

    with monkeypatch.context() as patch:
        patch.setattr("ledger.retention.append", breaks)
        with pytest.raises(LookupError):
            await ledger.pruner.prune()
    assert set(_bodies(await event_rows(ledger, settled.request_id)).values()) == {True}


async def test_a_batch_that_is_full_is_followed_by_another(
    aged: tuple[Ledger, CallRecord, CallRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, *_ = aged
    monkeypatch.setattr("ledger.retention._BATCH", 1)
    await Rules(ledger.system).set("call", 30, by="olga")
    assert await ledger.pruner.prune() == 3


async def test_the_services_role_prunes(
    aged: tuple[Ledger, CallRecord, CallRecord], database: str, postgres_server: Postgres
) -> None:
    ledger, settled, _ = aged
    await Rules(ledger.system).set("call", 30, by="olga")
    async with open_ledger(postgres_server.service_url(database.rpartition("/")[2])) as service:
        assert await service.pruner.prune() == 3
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await Rules(service.system).set("call", 1, by="olga")
    assert break_in(await event_rows(ledger, settled.request_id), settled.head) is None


def test_a_types_own_rule_comes_before_its_classs() -> None:
    found = days_by_type({"approval": 10, "approval.viewed": 5, "nothing": 1})
    assert (found["approval.viewed"], found["approval.granted"]) == (5, 10)
    assert {each.partition(".")[0] for each in found} == {"approval"}
    assert days_by_type({}) == {}
