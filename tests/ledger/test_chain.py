"""The events of a call: append-only, chained, encrypted, and enough to rebuild where the call stands."""

import dataclasses
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from cryptography.exceptions import InvalidTag

from activities.outcomes import after_attempt
from ledger.chain import GENESIS, EventRow, body_context, event_hash
from ledger.ledger import Ledger
from ledger.queries import load
from ledger.records import CallRecord
from schemas.diagnostics import Diagnostic
from schemas.effects import Confirmed
from schemas.events import CallProposed, CallSettled
from tests.ledger.refunds import NOTE, Refund, advance, decide, exchange, parked
from tests.ledger.stopped_clock import StoppedClock

_EVENTS_OF = load("calls")["events_of"]


async def _executed(ledger: Ledger) -> CallRecord:
    record = await Refund(6_000).admit(ledger)
    assert record.details.effect is not None
    outcome = Confirmed(remote_id="re_1", result={"amount_cents": 6_000}, exchange=exchange())
    return await advance(
        ledger, record, after_attempt(record.details.effect, outcome, done="refunded", operation="refund")
    )


async def _rows(connection: Any, request_id: str) -> list[EventRow]:
    rows = await connection.fetch(_EVENTS_OF, request_id)
    return [EventRow.of(row) for row in rows]


def _holds(rows: list[EventRow], record: CallRecord) -> bool:
    previous = GENESIS
    for n, row in enumerate(rows, start=1):
        if row.n != n or row.previous != previous or event_hash(row) != row.hash:
            return False
        previous = row.hash
    return previous == record.head.hash and len(rows) == record.head.n


async def test_the_chain_holds_from_first_event_to_the_calls_head(ledger: Ledger) -> None:
    record = await _executed(ledger)
    rows = await _rows(ledger.system, record.request_id)
    assert [row.type for row in rows] == [
        "call.proposed",
        "call.decided",
        "effect.intended",
        "effect.confirmed",
        "call.settled",
    ]
    assert _holds(rows, record)
    assert (await ledger.calls.read(record.request_id)).head == record.head


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET type = 'call.decided'",
        "UPDATE events SET body = body WHERE n = 1",
        "UPDATE events SET body = NULL, body_hash = sha256(body)",
        "DELETE FROM events",
        "TRUNCATE events",
        "TRUNCATE events CASCADE",
    ],
)
async def test_events_are_append_only(ledger: Ledger, statement: str) -> None:
    await Refund(6_000).admit(ledger)
    with pytest.raises(asyncpg.RaiseError, match="append-only"):
        await ledger.system.execute(statement)
    assert await ledger.system.fetchval("SELECT count(*) FROM events") == 3


async def test_two_events_never_have_the_same_place(ledger: Ledger) -> None:
    await Refund(6_000).admit(ledger)
    with pytest.raises(asyncpg.UniqueViolationError):
        await ledger.system.execute(
            "INSERT INTO events (tenant, request_id, n, type, version, at, key_id, body, previous, hash)"
            " SELECT tenant, request_id, n, type, version, at, key_id, body, previous, hash FROM events WHERE n = 2"
        )


async def test_every_altered_column_is_found(ledger: Ledger) -> None:
    record = await _executed(ledger)
    rows = await _rows(ledger.system, record.request_id)
    second = rows[1]
    assert second.body is not None
    other: dict[str, object] = {
        "tenant": "another",
        "request_id": "act_" + "0" * 32,
        "n": 7,
        "type": "call.settled",
        "version": second.version + 1,
        "at": second.at + timedelta(microseconds=1),
        "key_id": "dk_0",
        "body": second.body[:-1] + bytes([second.body[-1] ^ 1]),
        "previous": bytes(32),
        "hash": bytes(32),
        "body_hash": hashlib.sha256(second.body).digest(),
    }
    assert set(other) == set(EventRow.__slots__)
    for name, value in other.items():
        altered = [rows[0], dataclasses.replace(second, **{name: value}), *rows[2:]]
        assert not _holds(altered, record), name


async def test_a_missing_or_swapped_event_and_a_cut_tail_are_found(ledger: Ledger) -> None:
    record = await _executed(ledger)
    rows = await _rows(ledger.system, record.request_id)
    for broken in (rows[:-1], rows[1:], [*rows[:2], *rows[3:]], [rows[1], rows[0], *rows[2:]], []):
        assert not _holds(broken, record)


async def test_an_altered_row_is_found_although_its_owner_switched_the_guard_off(ledger: Ledger) -> None:
    record = await _executed(ledger)
    async with ledger.system.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("ALTER TABLE events DISABLE TRIGGER USER")
        await connection.execute("UPDATE events SET at = at + interval '1 second' WHERE n = 3")
        assert not _holds(await _rows(connection, record.request_id), record)
        await transaction.rollback()


async def test_a_body_opens_in_its_own_place_only(ledger: Ledger) -> None:
    record = await _executed(ledger)
    rows = await _rows(ledger.system, record.request_id)
    async with ledger.system.acquire() as connection:
        key = await ledger.calls._keys.by_id(connection, rows[0].key_id)
    for place in rows:
        assert place.body is not None
        context = body_context(place.tenant, place.request_id, place.n, place.type, place.version)
        for row in rows:
            assert row.body is not None
            if row.n == place.n:
                assert key.open(row.body, context)
            else:
                with pytest.raises(InvalidTag):
                    key.open(row.body, context)


async def test_nothing_that_people_or_agents_said_is_readable_in_the_database(ledger: Ledger) -> None:
    approval = await parked(ledger)
    reason = "Ada Example called, the lamp was broken"
    await decide(ledger, approval, verdict="deny", reason=reason)
    executed = await _executed(ledger)
    told = Diagnostic(
        request_id=executed.request_id,
        step="admit",
        began_at=datetime.now(UTC),
        elapsed_ms=1,
        told="a diagnostic about Ada Example",
    )
    await ledger.diagnostics.store(told, executed.tenant, executed.details.call.binding.customer_id)
    secrets = [NOTE, reason, "Ada Example", "amount_cents", '"amount', "idempotency_key", "delivered", "last4"]
    columns = await ledger.system.fetch(
        "SELECT c.table_name, c.column_name, c.data_type FROM information_schema.columns c"
        " JOIN information_schema.tables t USING (table_schema, table_name)"
        " WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE'"
    )
    searched = 0
    for table, column, _ in columns:
        for (value,) in await ledger.system.fetch(f'SELECT "{column}" FROM "{table}"'):
            searched += 1
            content = value if isinstance(value, bytes) else str(value).encode()
            for secret in secrets:
                assert secret.encode() not in content, f"{table}.{column} shows {secret}"
                assert secret.encode().hex() not in str(value)
    assert searched > 200


async def test_the_state_of_a_call_is_a_fold_over_its_events(ledger: Ledger) -> None:
    granted, denied, expired, withdrawn, waiting = [await parked(ledger) for _ in range(5)]
    await decide(ledger, granted)
    await decide(ledger, denied, verdict="deny")
    await ledger.system.execute(
        "UPDATE approvals SET expires_at = now() - interval '1 second' WHERE approval_id = $1", expired.approval_id
    )
    await ledger.approvals.expire(expired.request_id)
    await ledger.approvals.withdraw(withdrawn.request_id, "support-bot")
    await _executed(ledger)
    await Refund(50_000, available=10_000).admit(ledger)
    states = {
        "call.proposed": "in_progress",
        "approval.requested": "pending_approval",
        "approval.granted": "in_progress",
        "effect.intended": "in_progress",
        "effect.unknown": "outcome_unknown",
    }
    rows = await ledger.system.fetch("SELECT request_id, status, code FROM calls")
    assert len(rows) == 7
    for row in rows:
        status = code = None
        for _, event in await ledger.calls.events(row["request_id"]):
            status = states.get(event.type, status)
            if isinstance(event, CallSettled):
                status, code = event.status, event.code
        assert status == row["status"]
        assert code is None or code == row["code"]
    assert waiting.status == "open"


async def test_text_is_kept_to_the_byte(ledger: Ledger) -> None:
    """One code point or two, what looks the same stays what it was."""
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    hashes: set[bytes] = set()
    for note in (composed, decomposed):
        record = await Refund(1_000, note=note).admit(ledger)
        (row, event), *_ = await ledger.calls.events(record.request_id)
        assert isinstance(event, CallProposed)
        assert event.call.arguments["note"] == note
        hashes.add(row.hash)
    assert len(hashes) == 2


async def test_equal_times_do_not_matter(stopped: tuple[Ledger, StoppedClock]) -> None:
    """The order is that of the numbers; a time has microseconds, of whatever the clock has."""
    ledger, _ = stopped
    record = await _executed(ledger)
    rows = await _rows(ledger.system, record.request_id)
    assert len({row.at for row in rows}) == 1
    assert _holds(rows, record)
