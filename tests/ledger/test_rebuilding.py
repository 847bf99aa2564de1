"""The projections are what the events make them: after every kind of history, and again once they were mended."""

import asyncio
import secrets
from typing import Any, ClassVar

import pytest

from ledger.folding import SAYS_ALL
from ledger.ledger import Ledger
from ledger.projections import KEYS, SEALED, TABLES, Table
from ledger.rebuilding import Compared
from ledger.records import Step
from schemas.events import CallSettled
from schemas.upcasting import MODELS
from tests.ledger.histories import DONE, Histories
from tests.ledger.refunds import Refund, decide, open_ledger
from tests.ledger.tampering import tamper

OF_CALLS = ("approval.", "breaker.", "call.", "decision.", "diagnostic.", "effect.", "limit.", "review.")
"""Events that a call can have; the others are on streams of their tenant's."""


@pytest.fixture
def histories(ledger: Ledger) -> Histories:
    return Histories(ledger)


async def _compared(ledger: Ledger, *, mend: bool = False, trust_events: bool = False) -> list[Compared]:
    return [each async for each in ledger.rebuilding.compare(mend=mend, trust_events=trust_events)]


async def _found(ledger: Ledger) -> list[str]:
    """Everything that is not as it should be, in words."""
    found: list[str] = []
    for each in await _compared(ledger):
        assert each.kept is None
        found += [each.broken] if each.broken else [str(difference) for difference in each.differences]
    return found


async def _rows(ledger: Ledger) -> dict[str, list[dict[str, Any]]]:
    """Every row of every projection; of encrypted columns whether they are there."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for table in TABLES:
        sealed = {SEALED[table].column} if table in SEALED else set()
        found = [dict(row) for row in await ledger.system.fetch(f"SELECT * FROM {table}")]
        plain = [{name: value for name, value in row.items() if name not in sealed} for row in found]
        rows[table] = sorted(plain, key=lambda row, table=table: tuple(row[name] for name in KEYS[table]))
    return rows


async def _empty(ledger: Ledger) -> None:
    for table in reversed(TABLES):
        await ledger.system.execute(f"DELETE FROM {table}")


async def test_after_every_kind_of_history_what_is_live_is_what_the_events_make(
    ledger: Ledger, histories: Histories, monkeypatch: pytest.MonkeyPatch
) -> None:
    await histories.all(monkeypatch)
    for each in await _compared(ledger):
        assert each == Compared(each.request_id)
    rows = await _rows(ledger)
    assert all(rows.values())
    seen = {row["type"] for row in await ledger.system.fetch("SELECT DISTINCT type FROM events")}
    assert {name for name in MODELS if name.startswith(OF_CALLS)} <= seen

    await _empty(ledger)
    missing = await _found(ledger)
    assert len(missing) == sum(len(each) for each in rows.values())
    assert all(each.endswith("a row is missing") for each in missing)
    mended = await _compared(ledger, mend=True)
    assert all(each.mended for each in mended)
    assert await _rows(ledger) == rows
    assert await _found(ledger) == []
    assert not any(each.mended for each in await _compared(ledger, mend=True))
    # And the calls go on from there.
    waiting = await ledger.system.fetch("SELECT tenant, approval_id FROM approvals WHERE status = 'open'")
    for row in waiting:
        approval = await ledger.approvals.get(row["tenant"], row["approval_id"])
        assert approval is not None
        await decide(ledger, approval, verdict="deny", reason="An example")
    assert waiting
    assert await _found(ledger) == []


# What is wrong with a value of each type, as SQL over the column.
OTHER: dict[str, str] = {
    "text": "coalesce({0}, '') || 'x'",
    "timestamp with time zone": "coalesce({0}, now()) + interval '1 second'",
    "integer": "coalesce({0}, 0) + 1",
    "bigint": "coalesce({0}, 0) + 1",
    "bytea": "set_byte({0}, 20, get_byte({0}, 20) # 1)",
    "ARRAY": "{0} || 'x'::text",
}
CHECKED: dict[str, str] = {
    "approvals.status": "'voided'",
    "decisions.verdict": "'deny'",
    "decisions.through": "'api'",
    "decisions.proof": "'sign_in'",
    "uses.state": "'released'",
}
"""Of columns that the database lets have few values."""
ELSEWHERE: dict[str, set[str]] = {
    "calls": {"request_id", "n", "hash", "key_id"},
    "approvals": {"approval_id", "request_id", "key_id"},
    "decisions": {"decision_id", "approval_id", "request_id", "key_id"},
    "views": {"approval_id"},
    "uses": {"request_id"},
}
"""Columns that name other rows, and those that say which key and which event: tested for themselves."""


async def test_every_altered_column_is_named_and_mended(ledger: Ledger, histories: Histories) -> None:
    record = await histories.by_two()
    columns = await ledger.system.fetch(
        "SELECT table_name, column_name, data_type FROM information_schema.columns"
        " WHERE table_schema = 'public' AND table_name = ANY($1::text[])",
        list(TABLES),
    )
    altered = 0
    before = await _rows(ledger)
    for table, column, kind in columns:
        if column in ELSEWHERE.get(table, ()):
            continue
        value = CHECKED.get(f"{table}.{column}", OTHER[kind].format(column))
        await ledger.system.execute(f"UPDATE {table} SET {column} = {value}")
        (found,) = await ledger.rebuilding.of([record.request_id])
        named = {(each.table, each.column) for each in found.differences}
        expected: set[tuple[str, str | None]] = {(table, None if column in KEYS[table] else column)}
        if table in SEALED and column == "tenant":  # what a body is bound to
            expected.add((table, SEALED[table].column))
        assert named == expected, f"{table}.{column}"
        assert all(each.mended for each in await _compared(ledger, mend=True))
        assert await _rows(ledger) == before, f"{table}.{column}"
        altered += 1
    assert altered == len(columns) - sum(len(each) for each in ELSEWHERE.values())


@pytest.mark.parametrize("table", TABLES)
async def test_a_lost_row_is_found_and_made_again(ledger: Ledger, histories: Histories, table: Table) -> None:
    record = await histories.by_two()
    before = await _rows(ledger)
    for each in reversed(TABLES[TABLES.index(table) :]):
        await ledger.system.execute(f"DELETE FROM {each}")
    (found,) = await ledger.rebuilding.of([record.request_id])
    assert (table, None, True) in {(each.table, each.column, each.missing) for each in found.differences}
    await _compared(ledger, mend=True)
    assert await _rows(ledger) == before


async def test_what_no_event_made_is_found_and_taken_away(ledger: Ledger, histories: Histories) -> None:
    await histories.by_two()
    before = await _rows(ledger)
    await ledger.system.execute(
        """
        INSERT INTO approvals SELECT (jsonb_populate_record(a, '{"approval_id": "apr_forged", "status": "granted"}')).*
        FROM approvals a
        """
    )
    await ledger.system.execute(
        """
        INSERT INTO decisions SELECT (jsonb_populate_record(d, jsonb_build_object(
            'decision_id', 'dec_forged' || n, 'approver', 'mallory', 'approval_id', approval))).*
        FROM decisions d, (SELECT approval_id AS approval, row_number() OVER () AS n FROM approvals) a
        WHERE d.approver = 'ana'
        """
    )
    await ledger.system.execute("INSERT INTO views SELECT approval_id, 'mallory', now(), tenant FROM approvals")
    await ledger.system.execute(
        "INSERT INTO claims SELECT approval_id, tenant, 'ana', now(), now() FROM approvals WHERE approval_id ~ 'forged'"
    )
    await ledger.system.execute(
        "INSERT INTO uses SELECT request_id, tenant, tool, 'forged', 1, now(), now(), 'held' FROM calls"
    )
    found = await _found(ledger)
    assert len(found) == 6
    assert all(each.endswith("no event made a row that is there") for each in found)
    assert "mallory" not in str(found)
    await _compared(ledger, mend=True)
    assert await _rows(ledger) == before


async def test_what_two_calls_have_of_each_other_comes_back_to_each(ledger: Ledger, histories: Histories) -> None:
    one, two = await histories.done(), await histories.failed()
    before = await _rows(ledger)
    for column in ("workflow_id", "operation_id"):
        for value, of in (("'away'", one), ("$2", two), ("$2", one)):
            other = {one.request_id: two, two.request_id: one}[of.request_id]
            arguments = [of.request_id] if value != "$2" else [of.request_id, getattr(other, column)]
            await ledger.system.execute(f"UPDATE calls SET {column} = {value} WHERE request_id = $1", *arguments)
        assert len(await _found(ledger)) == 2
        await _compared(ledger, mend=True)
        assert await _rows(ledger) == before


async def test_rows_that_were_moved_to_another_call_come_back(ledger: Ledger, histories: Histories) -> None:
    one, two = await histories.by_two(), await histories.denied()
    before = await _rows(ledger)
    for table in ("approvals", "decisions"):
        await ledger.system.execute(
            f"UPDATE {table} SET request_id = $2 WHERE request_id = $1",
            one.request_id,
            two.request_id,
        )
    assert await _found(ledger) != []
    while any(each.mended for each in await _compared(ledger, mend=True)):
        pass
    assert await _rows(ledger) == before


# What is left as it is


async def test_an_erased_customers_call_is_kept(ledger: Ledger, histories: Histories) -> None:
    """Whatever key a process still remembers."""
    erased, other = await histories.denied(), await histories.done()
    customer = erased.details.call.binding.customer_id
    remembered = dict(ledger.keys._by_id)
    await ledger.erasures.erase(erased.tenant, customer, by="olga", reason="asked for")
    ledger.keys._by_id.update(remembered)
    await ledger.system.execute("UPDATE calls SET status = 'failed'")
    before = await _rows(ledger)
    first, second = await _compared(ledger, mend=True)
    assert (first.kept, first.mended, second.kept, second.mended) == ("erased", False, None, True)
    after = await _rows(ledger)
    for table in ("approvals", "decisions", "uses"):
        assert after[table] == before[table]
    assert {row["request_id"]: (row["status"], row["erased_at"] is None) for row in after["calls"]} == {
        erased.request_id: ("failed", False),
        other.request_id: ("executed", True),
    }


async def test_what_is_only_marked_as_erased_is_not(ledger: Ledger, histories: Histories) -> None:
    await histories.by_two()
    before = await _rows(ledger)
    for table in ("calls", "approvals"):
        await ledger.system.execute(f"UPDATE {table} SET erased_at = now()")
    (found,) = await _compared(ledger, mend=True)
    assert {each.column for each in found.differences} == {"erased_at"}
    assert await _rows(ledger) == before


async def test_a_call_whose_bodies_were_pruned_is_kept(ledger: Ledger, database: str, histories: Histories) -> None:
    record = await histories.done()
    await tamper(database, "UPDATE events SET body_hash = sha256(body), body = NULL WHERE n = 2")
    await ledger.system.execute("UPDATE calls SET tool = 'x'")
    assert await _compared(ledger, mend=True) == [Compared(record.request_id, kept="pruned")]


class _Before(CallSettled):
    """As an earlier release said it."""

    version: ClassVar[int] = 1


async def test_a_call_of_events_that_did_not_say_everything_is_kept(ledger: Ledger, histories: Histories) -> None:
    record = await Refund(1_000).admit(ledger)
    record = await histories.step(record.request_id, lambda *_: Step([_Before(status="executed", code=record.code)]))
    assert await _compared(ledger, mend=True) == [Compared(record.request_id, kept="older")]


def test_what_says_all_is_a_version_that_there_is() -> None:
    assert {name: version for name, version in SAYS_ALL.items() if MODELS[name].version < version} == {}


# What may be the last trace of something


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("DELETE FROM events WHERE n = 5", "its row knows of 9 events, and there are 4: some may be gone"),
        ("DELETE FROM events", "there is no event of it: they may be gone"),
    ],
)
async def test_where_events_are_gone_nothing_is_written_over(
    ledger: Ledger, database: str, histories: Histories, change: str, sentence: str
) -> None:
    await histories.done()
    await tamper(database, *(["DELETE FROM events WHERE n > 5"] if "n = 5" in change else []), change)
    before = await _rows(ledger)
    (found,) = await _compared(ledger, mend=True)
    assert (found.broken, found.mended) == (sentence, False)
    assert await _rows(ledger) == before
    (found,) = await _compared(ledger, mend=True, trust_events=True)
    assert (found.broken, found.mended) == (None, True)
    assert await _found(ledger) == []


@pytest.mark.parametrize("change", ["hash = sha256(hash)", "n = n + 1", "n = 0", "n = 1"])
async def test_another_head_than_any_events_is_named_and_not_written_over(
    ledger: Ledger, histories: Histories, change: str
) -> None:
    await histories.done()
    before = await _rows(ledger)
    await ledger.system.execute(f"UPDATE calls SET {change}")
    (found,) = await _compared(ledger, mend=True)
    assert (found.broken is not None, found.mended) == (True, False)
    await _compared(ledger, mend=True, trust_events=True)
    assert await _rows(ledger) == before


async def test_the_row_of_an_older_copy_is_brought_up_to_its_events(ledger: Ledger, histories: Histories) -> None:
    record = await Refund(1_000).admit(ledger)
    await ledger.system.execute("CREATE TABLE older AS SELECT * FROM calls")
    await histories.attempt(record, DONE)
    before = await _rows(ledger)
    await ledger.system.execute("DELETE FROM calls")
    await ledger.system.execute("INSERT INTO calls SELECT * FROM older")
    await ledger.system.execute("DROP TABLE older")
    (found,) = await _compared(ledger, mend=True)
    assert {each.column for each in found.differences} >= {"n", "hash", "status", "updated_at", "details"}
    assert await _rows(ledger) == before


async def test_of_a_broken_chain_nothing_is_made(ledger: Ledger, database: str, histories: Histories) -> None:
    await histories.done()
    await tamper(database, "UPDATE events SET at = at + interval '1 second' WHERE n = 2")
    for trust_events in (False, True):
        (found,) = await _compared(ledger, mend=True, trust_events=trust_events)
        assert (found.broken, found.mended) == ("event 2 was altered", False)


# Beside a running service


async def test_a_service_may_run_meanwhile(ledger: Ledger, database: str, histories: Histories) -> None:
    """Nothing is taken for a difference that is only under way, and nothing that is under way is lost."""

    async def work() -> None:
        for _ in range(6):
            await histories.by_two()
            await histories.done()
            await histories.denied()

    async with open_ledger(database) as other:
        working = asyncio.gather(work(), work(), work())
        while not working.done():
            if secrets.randbelow(2):
                await ledger.system.execute(
                    "UPDATE calls SET rule = 'x' WHERE request_id IN (SELECT max(request_id) FROM calls)"
                )
            for each in await _compared(other, mend=True):
                assert {difference.column for difference in each.differences} <= {"rule"}
                assert each.broken is None
        await working
    await _compared(ledger, mend=True)
    assert await _found(ledger) == []
    assert await ledger.system.fetchval("SELECT count(*) FROM calls") == 54
