"""The tamper matrix: what whoever owns the database does to it, verifying an export finds, and says what it was."""

import dataclasses
import json
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest
from counterseal_client import verify as independent
from counterseal_client.notes import NotHeld
from rich.console import Console
from rich.table import Table

from ledger.chain import EventRow, event_hash
from ledger.checkpoints import Checkpoint
from ledger.database import Pool
from ledger.diagnosing import diagnose
from ledger.exporting import Export
from ledger.findings import EXIT, Finding, gravest
from ledger.ledger import Ledger
from ledger.lines import SEGMENT, event_line, read_event_line, segment_files
from ledger.seals import Seal, Seals
from ledger.verifying import Suspicious, verify
from tests.ledger.refunds import MASTER, Refund, new_binding

ROOT = Path(__file__).parents[2]
MATRIX = ROOT / "docs" / "reference" / "tamper-matrix.md"
_COLUMNS = "id, tenant, request_id, n, type, version, at, key_id, body, previous, hash, body_hash"
_LAST_SEALED = "(SELECT max(size) FROM seals)"

Attack = str | Callable[[asyncpg.Connection], Awaitable[Any]]


class _One:
    """A pool of this one connection, within whose transaction everything happens."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[asyncpg.Connection]:
        yield self.connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


def _pool(connection: asyncpg.Connection) -> Pool:
    return cast("Pool", _One(connection))


async def _rewrite(connection: asyncpg.Connection, since: int) -> None:
    """From this id on, other events with hashes that hold together, in their call's row too."""
    rows = await connection.fetch(f"SELECT {_COLUMNS} FROM events WHERE id >= $1 ORDER BY id", since)
    heads: dict[str, bytes] = {}
    for row in rows:
        was = EventRow.of(row)
        body = bytes([was.body[0] ^ 1]) + was.body[1:] if was.body else b""
        changed = dataclasses.replace(was, body=body, previous=heads.get(was.request_id, was.previous))
        heads[was.request_id] = event_hash(changed)
        await connection.execute(
            "UPDATE events SET body = $2, previous = $3, hash = $4 WHERE id = $1",
            *(row["id"], body, changed.previous, heads[was.request_id]),
        )


async def _rewrite_everything(connection: asyncpg.Connection) -> None:
    await _rewrite(connection, 1)


async def _rewrite_the_last_three(connection: asyncpg.Connection) -> None:
    await _rewrite(connection, await connection.fetchval(f"SELECT {_LAST_SEALED} - 2"))


async def _exchange_ids(connection: asyncpg.Connection) -> None:
    """Of two calls' first events, within one seal."""
    one, other = await connection.fetch("SELECT id FROM events WHERE n = 1 ORDER BY id LIMIT 2")
    await _exchange(connection, "id", one["id"], other["id"])


async def _exchange_numbers(connection: asyncpg.Connection) -> None:
    await _exchange(connection, "n", 1, 2)


async def _exchange(connection: asyncpg.Connection, column: str, one: int, other: int) -> None:
    """Of the events with these ids. Generated ids cannot be updated as such."""
    await connection.execute("ALTER TABLE events ALTER id DROP IDENTITY IF EXISTS")
    was = {row["id"]: row[column] for row in await connection.fetch(f"SELECT id, {column} FROM events")}
    for change in ((one, 99_999), (other, was[one]), (99_999 if column == "id" else one, was[other])):
        await connection.execute(f"UPDATE events SET {column} = $2 WHERE id = $1", *change)


async def _moved_with_its_hashes(connection: asyncpg.Connection) -> None:
    """One event to another tenant, hashed anew."""
    row = await connection.fetchrow(f"SELECT {_COLUMNS} FROM events WHERE id = 2")
    assert row is not None
    moved = dataclasses.replace(EventRow.of(row), tenant="globex")
    await connection.execute("UPDATE events SET tenant = 'globex', hash = $1 WHERE id = 2", event_hash(moved))


async def _older_copy_that_went_on(connection: asyncpg.Connection) -> None:
    await _older_copy(connection)
    await connection.execute(
        f"INSERT INTO events ({_COLUMNS}) OVERRIDING SYSTEM VALUE SELECT 500, tenant, 'act_new', n, type, version, at,"
        " key_id, body, previous, hash, body_hash FROM events WHERE id = 1"
    )
    row = await connection.fetchrow(f"SELECT {_COLUMNS} FROM events WHERE id = 500")
    assert row is not None
    hashed = event_hash(EventRow.of(row))
    await connection.execute("UPDATE events SET hash = $1 WHERE id = 500", hashed)
    while await Seals(_pool(connection), MASTER).seal() is not None:
        pass
    # As many seals as there were before.
    await Seals(_pool(connection), MASTER).rotate()
    await Seals(_pool(connection), MASTER).rotate()


async def _older_copy(connection: asyncpg.Connection) -> None:
    await connection.execute("DELETE FROM events WHERE id > (SELECT size FROM seals WHERE number = 1)")
    await connection.execute("DELETE FROM seals WHERE number > 1")
    await connection.execute("UPDATE sealing SET settled = (SELECT size FROM seals)")


async def _other_key(connection: asyncpg.Connection) -> None:
    """Whoever has the database makes a key of their own and seals everything anew with it."""
    await connection.execute("DELETE FROM seals")
    await connection.execute("DELETE FROM seal_keys")
    await connection.execute("UPDATE sealing SET settled = 0")
    for _ in range(3):
        await Seals(_pool(connection), MASTER).rotate()


def _second(change: str) -> str:
    return f"UPDATE events SET {change} WHERE id = 2"


def _bit(column: str) -> str:
    return f"{column} = set_bit({column}, 77, 1 - get_bit({column}, 77))"


_OF_ANOTHER = "(SELECT body FROM events WHERE id = 1)"
_SECOND_SEAL = "UPDATE seals SET {} WHERE number = 2"
_NEWEST = "(SELECT max(id) FROM events)"
_AMONG = (
    f"INSERT INTO events ({_COLUMNS}) OVERRIDING SYSTEM VALUE SELECT 0, tenant, 'act_new', n, type, version, at,"
    " key_id, body, previous, hash, body_hash FROM events WHERE id = 1"
)
ATTACKS: list[tuple[str, Attack, str | None]] = [
    ("nothing", "SELECT 1", None),
    ("another type", _second("type = 'call.settled'"), "altered"),
    ("another version", _second("version = version + 1"), "altered"),
    ("a microsecond later", _second("at = at + interval '1 microsecond'"), "altered"),
    ("another key's id", _second("key_id = 'dk_0'"), "altered"),
    ("a bit of the body", _second(_bit("body")), "altered"),
    ("the body of another event", _second(f"body = {_OF_ANOTHER}"), "altered"),
    ("a bit of the previous hash", _second(_bit("previous")), "altered"),
    ("a bit of the hash", _second(_bit("hash")), "altered"),
    ("another call's id", _second("request_id = 'act_other'"), "altered"),
    ("another tenant", _second("tenant = 'globex'"), "swapped"),
    ("another tenant, hashed anew", _moved_with_its_hashes, "swapped"),
    ("two numbers exchanged", _exchange_numbers, "reordered"),
    ("two ids exchanged", _exchange_ids, "reordered"),
    ("one event deleted", "DELETE FROM events WHERE id = 2", "missing"),
    ("a call deleted", "DELETE FROM events WHERE id <= 3", "missing"),
    ("the last event deleted", f"DELETE FROM events WHERE id >= {_LAST_SEALED}", "truncated"),
    ("the last four deleted", f"DELETE FROM events WHERE id >= {_LAST_SEALED} - 3", "truncated"),
    ("all events deleted", "DELETE FROM events", "emptied"),
    ("all events and seals deleted", "WITH gone AS (DELETE FROM seals) DELETE FROM events", "emptied"),
    ("the last three rewritten, hashed anew", _rewrite_the_last_three, "rewritten"),
    ("everything rewritten, hashed anew", _rewrite_everything, "rewritten"),
    ("an older copy restored", _older_copy, "rolled_back"),
    ("an older copy that went on", _older_copy_that_went_on, "forked"),
    ("everything sealed anew with another key", _other_key, "forked"),
    ("an event put among those that were sealed", _AMONG, "invented"),
    ("the keys deleted", "DELETE FROM seal_keys", "unverifiable"),
    ("a seal's checkpoint", _SECOND_SEAL.format("checkpoint = replace(checkpoint, 'time 20', 'time 19')"), "altered"),
    ("a seal's ids", _SECOND_SEAL.format("ids = '{[7,9)}'"), "altered"),
    ("a seal's size", _SECOND_SEAL.format("size = size + 1"), "altered"),
    ("a seal's peaks", _SECOND_SEAL.format(_bit("peaks")), "altered"),
    ("a seal deleted", "DELETE FROM seals WHERE number = 2", "missing"),
    ("an event not sealed yet altered", f"UPDATE events SET type = 'x' WHERE id = {_NEWEST}", "altered"),
    ("an event not sealed yet deleted before the newest", f"DELETE FROM events WHERE id = {_NEWEST} - 1", "missing"),
]


@pytest.fixture
async def sealed(ledger: Ledger) -> Checkpoint:
    """Three seals over calls of two tenants, and a call that is not sealed yet; the last checkpoint."""
    last: Seal | None = None
    for _ in range(3):
        for tenant in ("acme", "globex"):
            await Refund(1_000, binding=new_binding(tenant=tenant)).admit(ledger)
        last = await ledger.seals.seal()
    await Refund(1_000).admit(ledger)
    assert last is not None
    return last.says


async def _found(connection: asyncpg.Connection, trusted: Checkpoint, folder: Path) -> list[Finding]:
    """What verifying finds; the quick look and the thorough one agree."""
    await Export(_pool(connection), folder).write()
    findings = diagnose(folder, trusted)
    try:
        verify(folder, trusted, processes=1)
    except Suspicious:
        assert findings, "the quick look found something that the thorough one did not"
    else:
        assert not findings, f"the quick look found nothing of {findings}"
    assert _refused_elsewhere(folder, trusted) == bool(findings), findings
    return findings


def _refused_elsewhere(folder: Path, trusted: Checkpoint) -> bool:
    """Whether the verifier that shares no code with this one refuses the export."""
    kept = folder.with_suffix(".checkpoint")
    kept.write_text(f"{trusted.text}\n— kept.example AAAAAA==\n")
    try:
        independent.verify(folder, independent.read_checkpoint(kept))
    except (NotHeld, OSError):
        return True
    return False


async def test_the_tamper_matrix(
    ledger: Ledger, database: str, sealed: Checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = await asyncpg.connect(database, server_settings={"counterseal.tenant": "*"})
    table = Table("Attack", "Found as", "Exit", "What is said")
    results: list[tuple[str, str | None, str | None]] = []
    lines = ["| done to the database | found as | exit |", "| --- | --- | --- |"]
    for number, (name, attack, expected) in enumerate(ATTACKS):
        transaction = connection.transaction(isolation="repeatable_read")
        await transaction.start()
        for guarded in ("events", "seals"):
            await connection.execute(f"ALTER TABLE {guarded} DISABLE TRIGGER USER")
        if isinstance(attack, str):
            await connection.execute(attack)
        else:
            await attack(connection)
        findings = await _found(connection, sealed, tmp_path / str(number))
        await transaction.rollback()
        first = gravest(findings) if findings else None
        kind = first.kind if first else None
        results.append((name, kind, expected))
        status = str(EXIT[first.kind]) if first else "0"
        table.add_row(name, kind or "fine", status, first.what if first else "")
        lines.append(f"| {name} | {kind or 'fine'} | {status} |")
    await connection.close()
    with capsys.disabled():
        Console(width=200).print(table)
    assert [(name, kind) for name, kind, _ in results] == [(name, expected) for name, _, expected in results]
    assert {expected for _, _, expected in ATTACKS if expected} == set(EXIT) - {"incomplete"}
    assert "\n".join(lines) in MATRIX.read_text(), "docs/reference/tamper-matrix.md does not show this:\n" + "\n".join(
        lines
    )


async def test_every_byte_of_every_column_counts(ledger: Ledger, sealed: Checkpoint, tmp_path: Path) -> None:
    """Of one event after the other, as an export of the altered database would have it."""
    folder = tmp_path / "export"
    await Export(ledger.system, folder).write()
    rows = await ledger.system.fetch(f"SELECT {_COLUMNS} FROM events WHERE id <= 3 ORDER BY id")
    lines_file = segment_files(folder, 0)[1]
    bodies_file = segment_files(folder, 0)[2]
    lines, bodies = lines_file.read_bytes().splitlines(keepends=True), bodies_file.read_bytes()
    verify(folder, sealed, processes=1)
    at, tried = 0, 0
    for index, row in enumerate(rows):
        event = EventRow.of(row)
        assert event.body is not None
        for change, event_id in [*((each, row["id"]) for each in _flips(event)), (event, row["id"] ^ 64)]:
            body = change.body or b""
            altered = [*lines[:index], event_line(change, event_id), *lines[index + 1 :]]
            lines_file.write_bytes(b"".join(altered))
            bodies_file.write_bytes(bodies[:at] + body + bodies[at + len(event.body) :])
            with pytest.raises(Suspicious):
                verify(folder, sealed, processes=1)
            assert tried % 20 or _refused_elsewhere(folder, sealed)
            tried += 1
        at += len(event.body)
        lines_file.write_bytes(b"".join(lines))
    bodies_file.write_bytes(bodies)
    verify(folder, sealed, processes=1)
    assert tried > 2_000


def _flips(event: EventRow) -> list[EventRow]:
    """The event with one byte of one column another one."""
    found: list[EventRow] = []
    for name in ("tenant", "request_id", "type", "key_id"):
        text = getattr(event, name)
        found += [
            dataclasses.replace(event, **{name: text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]})
            for at in range(len(text))
        ]
    for name in ("body", "previous", "hash"):
        value = getattr(event, name)
        found += [
            dataclasses.replace(event, **{name: value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]})
            for at in range(len(value))
        ]
    found += [dataclasses.replace(event, n=event.n ^ 1 << bit) for bit in range(24) if event.n ^ 1 << bit]
    found += [dataclasses.replace(event, version=event.version ^ 1 << bit) for bit in range(15)]
    found += [
        dataclasses.replace(event, at=event.at.fromtimestamp(event.at.timestamp() + 2**bit / 1e6, event.at.tzinfo))
        for bit in range(40)
    ]
    return [each for each in found if each != event]


def _exchange_lines(folder: Path) -> None:
    _, lines_file, bodies_file = segment_files(folder, 0)
    lines, bodies = lines_file.read_bytes().splitlines(keepends=True), bodies_file.read_bytes()
    first, second = (read_event_line(line).size or 0 for line in lines[:2])
    lines[0], lines[1] = lines[1], lines[0]
    lines_file.write_bytes(b"".join(lines))
    exchanged = bodies[first : first + second] + bodies[:first] + bodies[first + second :]
    bodies_file.write_bytes(exchanged)


@pytest.mark.parametrize(
    ("cut", "kind"),
    [
        (lambda folder: (folder / "end.json").unlink(), "incomplete"),
        (lambda folder: (folder / "keys.json").unlink(), "unverifiable"),
        (lambda folder: (folder / "unsealed.jsonl").unlink(), "incomplete"),
        (lambda folder: (folder / "bodies-000000.bin").unlink(), "incomplete"),
        (lambda folder: _cut(folder / "bodies-000000.bin", 10), "incomplete"),
        (lambda folder: _cut(folder / "events-000000.jsonl", 10, killed=folder), "incomplete"),
        (lambda folder: _cut(folder / "seals-000000.jsonl", 10, killed=folder), "incomplete"),
        (lambda folder: _append(folder / "bodies-000000.bin"), "altered"),
        (lambda folder: _append(folder / "events-000000.jsonl"), "altered"),
        (_exchange_lines, "reordered"),
    ],
)
async def test_an_export_that_is_not_whole_says_nothing_against_the_ledger(
    ledger: Ledger, sealed: Checkpoint, tmp_path: Path, cut: Callable[[Path], Any], kind: str
) -> None:
    await Export(ledger.system, tmp_path / "export").write()
    cut(tmp_path / "export")
    with pytest.raises(Suspicious):
        verify(tmp_path / "export", sealed, processes=1)
    assert _refused_elsewhere(tmp_path / "export", sealed)
    findings = diagnose(tmp_path / "export", sealed)
    assert kind in {each.kind for each in findings}, findings


def _cut(path: Path, count: int, killed: Path | None = None) -> None:
    path.write_bytes(path.read_bytes()[:-count])
    if killed is not None:
        (killed / "end.json").unlink()


def _append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x\n")


async def test_an_export_goes_on_where_it_stopped(
    ledger: Ledger, sealed: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the middle of a line of its third segment, it writes that one anew and leaves the others."""
    monkeypatch.setattr("ledger.exporting.SEGMENT", 6)
    assert SEGMENT > 6
    folder, whole = tmp_path / "export", tmp_path / "whole"
    await Export(ledger.system, folder).write()
    shutil.copytree(folder, whole)
    (folder / "end.json").unlink()
    _cut(folder / "events-000002.jsonl", 30)
    kept = (folder / "events-000001.jsonl").stat().st_mtime_ns
    with pytest.raises(Suspicious):
        verify(folder, sealed)
    assert {each.kind for each in diagnose(folder, sealed)} >= {"incomplete"}
    await Export(ledger.system, folder).write()
    assert (folder / "events-000001.jsonl").stat().st_mtime_ns == kept
    for path in whole.iterdir():
        if path.name != "end.json":
            assert path.read_bytes() == (folder / path.name).read_bytes(), path.name
    held = verify(folder, sealed, processes=2)
    assert (held.events, held.seals) == (sealed.size, sealed.number)
    said = json.loads((folder / "end.json").read_bytes())
    assert held.unsealed == said["unsealed"] == 3
