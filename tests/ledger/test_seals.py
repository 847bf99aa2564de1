"""Seals: every committed event is in one, by one process at a time, and what the end of the ledger lost is noticed."""

import asyncio
import sys

import asyncpg
import pytest

from ledger.checkpoints import NO_SEAL, Checkpoint, note_hash, signers
from ledger.ledger import Ledger
from ledger.merkle import root_of
from ledger.proving import Proofs
from ledger.seals import SealBroken, Seals, spans
from tests.ledger.refunds import MASTER, Refund, new_binding, open_ledger, parked
from tests.ledger.tampering import tamper

_COLUMNS = "tenant, request_id, n, type, version, at, key_id, body, previous, hash"


def another(ledger: Ledger) -> Seals:
    """As another process would have it."""
    return Seals(ledger.system, MASTER)


async def leaves(ledger: Ledger) -> list[bytes]:
    rows = await ledger.system.fetch(
        "SELECT e.hash FROM seals s, unnest(s.ids) r JOIN events e ON e.id <@ r ORDER BY s.number, e.id"
    )
    return [row["hash"] for row in rows]


async def test_a_seal_covers_what_was_committed_since_the_last(ledger: Ledger) -> None:
    assert await ledger.seals.seal() is None
    await Refund(1_000).admit(ledger)
    first = await ledger.seals.seal()
    assert first is not None
    await Refund(1_001).admit(ledger)
    await parked(ledger)
    second = await ledger.seals.seal()
    assert second is not None
    assert await ledger.seals.seal() is None
    assert (first.number, first.says.previous, second.number) == (1, NO_SEAL, 2)
    assert second.size == await ledger.system.fetchval("SELECT count(*) FROM events")
    hashes = await leaves(ledger)
    assert (first.says.root, second.says.root) == (root_of(hashes[: first.size]), root_of(hashes))
    stored = await ledger.seals.read(1)
    last = await ledger.seals.last()
    assert stored is not None
    assert last is not None
    assert second.says.previous == note_hash(stored.checkpoint)
    keys = await ledger.seals.keys()
    assert signers(last.checkpoint, keys) == keys
    assert (stored, last) == (first, second)
    await ledger.seals.check(second.says)


async def test_an_event_that_is_committed_late_is_sealed_late(ledger: Ledger, database: str) -> None:
    """Ids are drawn before the commit: a lower one may appear after a higher one was sealed."""
    await Refund(1_000).admit(ledger)
    slow = await asyncpg.connect(database, server_settings={"counterseal.tenant": "*"})
    late = slow.transaction()
    await late.start()
    await slow.execute(
        f"INSERT INTO events ({_COLUMNS}) SELECT tenant, request_id || 'x', n, type, version, at, key_id, body,"
        " previous, hash FROM events WHERE n = 1"
    )
    gone = await asyncpg.connect(database, server_settings={"counterseal.tenant": "*"})
    rolled_back = gone.transaction()
    await rolled_back.start()
    await gone.execute("SELECT nextval(pg_get_serial_sequence('events', 'id')), pg_current_xact_id()")
    await rolled_back.rollback()
    await Refund(1_001).admit(ledger)
    before = await ledger.seals.seal()
    assert before is not None
    assert await ledger.seals.seal() is None
    await late.commit()
    for seals in (another(ledger), ledger.seals):
        after = await seals.seal()
        if after is not None:
            assert after.size == before.size + 1
    assert await ledger.system.fetchval("SELECT max(size) FROM seals") == before.size + 1
    await ledger.seals.check()
    await slow.close()
    await gone.close()


async def test_an_id_that_can_no_longer_come_is_not_waited_for(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.seals._DRAWN_WITHIN", 0.0)
    settled = "SELECT settled FROM sealing"
    await ledger.system.execute("SELECT nextval(pg_get_serial_sequence('events', 'id'))")
    for amount in (1_000, 1_001, 1_002):
        await Refund(amount).admit(ledger)
        await ledger.seals.seal()
    assert await ledger.system.fetchval(settled) == await ledger.system.fetchval("SELECT max(id) FROM events")
    assert (await another(ledger).seal()) is None


async def test_processes_that_seal_at_once_make_one_chain(ledger: Ledger, database: str) -> None:
    """Each with a pool of its own, while calls are admitted."""
    running = True

    async def seal_on(seals: Seals) -> int:
        made = 0
        while running:
            made += await seals.seal() is not None
            await asyncio.sleep(0)
        return made

    async with open_ledger(database) as second, open_ledger(database) as third:
        sealers = [asyncio.create_task(seal_on(each.seals)) for each in (ledger, second, third)]
        await asyncio.gather(*(Refund(1_000 + n).admit(ledger) for n in range(40)))
        running = False
        made = sum(await asyncio.gather(*sealers)) + (await ledger.seals.seal() is not None)
    hashes = await leaves(ledger)
    assert len(hashes) == await ledger.system.fetchval("SELECT count(*) FROM events")
    rows = await ledger.system.fetch("SELECT number, size, checkpoint FROM seals ORDER BY number")
    assert [row["number"] for row in rows] == list(range(1, made + 1))
    previous = NO_SEAL
    for row in rows:
        checkpoint = Checkpoint.parse(row["checkpoint"])
        assert (checkpoint.previous, checkpoint.root) == (previous, root_of(hashes[: row["size"]]))
        previous = note_hash(row["checkpoint"])


async def test_many_appends_from_many_processes_are_one_order_per_call(ledger: Ledger, database: str) -> None:
    """Eight approvals, viewed by six people from six processes: 48 appends besides what parked them."""
    tenant = new_binding().tenant
    approvals = [await parked(ledger, binding=new_binding(tenant=tenant)) for _ in range(8)]
    before = await ledger.system.fetchval("SELECT count(*) FROM events")
    ids = [approval.approval_id for approval in approvals]
    program = [sys.executable, "-m", "tests.ledger.viewing", database, tenant]
    children = [await asyncio.create_subprocess_exec(*program, f"person{n}", *ids) for n in range(6)]
    while any(child.returncode is None for child in children):
        await ledger.seals.seal()
        await asyncio.sleep(0)
    assert [child.returncode for child in children] == [0] * 6
    await ledger.seals.seal()
    assert await ledger.system.fetchval("SELECT count(*) FROM events") == before + 48
    for approval in approvals:
        events = [row for row, _ in await ledger.calls.events(approval.request_id)]
        assert [row.n for row in events] == list(range(1, len(events) + 1))
        assert [row.previous for row in events[1:]] == [row.hash for row in events[:-1]]
    assert len(await leaves(ledger)) == before + 48
    await ledger.seals.check()


async def test_the_key_is_changed_in_a_seal_of_the_old_one(ledger: Ledger) -> None:
    await Refund(1_000).admit(ledger)
    await ledger.seals.seal()
    handed_over = await ledger.seals.rotate()
    await Refund(1_001).admit(ledger)
    after = await another(ledger).seal()
    old, new = await ledger.seals.keys()
    stored, last = await ledger.seals.read(handed_over.number), await ledger.seals.last()
    assert after is not None
    assert stored is not None
    assert last is not None
    assert handed_over.says.next_key == new
    assert signers(stored.checkpoint, [old, new]) == [old]
    assert signers(last.checkpoint, [old, new]) == [new]
    await ledger.seals.check(after.says)
    proofs = Proofs(ledger.system)
    assert await proofs.rotations(handed_over.size, last.number) == [handed_over]
    assert await proofs.rotations(last.size, last.number) == await proofs.rotations(0, stored.number) == []
    assert [await proofs.had(size) for size in (0, last.size, last.size + 1)] == [True, True, False]


async def test_the_key_can_be_changed_before_anything_is_sealed(ledger: Ledger) -> None:
    await ledger.seals.rotate()
    await Refund(1_000).admit(ledger)
    await ledger.seals.seal()
    await ledger.seals.check()


@pytest.mark.parametrize(
    ("done", "noticed"),
    [
        ("DELETE FROM events WHERE id = (SELECT max(id) FROM events)", "1 events are missing that seal 2 covers"),
        ("UPDATE events SET hash = previous WHERE id = (SELECT max(id) FROM events)", "the newest events are not"),
        ("UPDATE seals SET checkpoint = replace(checkpoint, 'seal 2', 'seal 3') WHERE number = 2", "seal 2 is another"),
        ("UPDATE seals SET size = size + 1 WHERE number = 2", "seal 2 was altered"),
        ("DELETE FROM seals WHERE number = 2", "the ledger ends at seal 1, and seal 2 was written down"),
        ("DELETE FROM seals", "the ledger has no seal, and seal 2"),
        ("DELETE FROM seal_keys", "seal 2 is not signed by this ledger"),
    ],
)
async def test_a_head_that_lost_something_is_noticed(ledger: Ledger, database: str, done: str, noticed: str) -> None:
    for amount in (1_000, 1_001):
        await Refund(amount).admit(ledger)
        sealed = await ledger.seals.seal()
    assert sealed is not None
    outside = sealed.says
    await another(ledger).check(outside)
    await tamper(database, done)
    with pytest.raises(SealBroken, match=noticed):
        await another(ledger).check(outside)


async def test_a_last_event_that_was_never_sealed_is_missed_too(ledger: Ledger, database: str) -> None:
    await Refund(1_000).admit(ledger)
    await ledger.seals.seal()
    record = await Refund(1_001).admit(ledger)
    await tamper(database, "DELETE FROM events WHERE id = (SELECT max(id) FROM events)")
    with pytest.raises(SealBroken, match=f"the last events of {record.request_id} are missing"):
        await ledger.seals.check()


async def test_whoever_saw_a_later_seal_does_not_seal_an_older_copy(ledger: Ledger, database: str) -> None:
    for amount in (1_000, 1_001):
        await Refund(amount).admit(ledger)
        await ledger.seals.seal()
    await tamper(database, "DELETE FROM seals WHERE number = 2")
    with pytest.raises(SealBroken, match="ends at seal 1; this process has seen seal 2"):
        await ledger.seals.seal()


@pytest.mark.parametrize("statement", ["UPDATE seals SET size = 9", "DELETE FROM seals", "TRUNCATE seals"])
async def test_seals_are_append_only(ledger: Ledger, statement: str) -> None:
    await Refund(1_000).admit(ledger)
    await ledger.seals.seal()
    with pytest.raises(asyncpg.RaiseError, match="append-only"):
        await ledger.system.execute(statement)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [([], []), ([3], [(3, 3)]), ([1, 2, 3, 5, 7, 8], [(1, 3), (5, 5), (7, 8)])],
)
def test_spans_are_runs(ids: list[int], expected: list[tuple[int, int]]) -> None:
    assert spans(ids) == expected


async def test_what_nobody_seals_is_late(ledger: Ledger) -> None:
    assert not await ledger.seals.late(0)
    for amount in (1_000, 1_001):
        await Refund(amount).admit(ledger)
        assert await ledger.seals.late(0)
        assert not await ledger.seals.late(3_600)
        await ledger.seals.seal()
        assert not await ledger.seals.late(0)
