"""A backup of a ledger that goes on, restored elsewhere: it ends in `ledger verify`."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ledger.ledger import Ledger
from runtime.backups import DUMP, BackupError, Manifest, back_up, restore
from runtime.cli.main import run
from runtime.stack.postgres import Postgres
from tests.ledger.refunds import Refund, open_ledger
from tests.service import fresh_database


@pytest.fixture
async def ledger(database: str) -> AsyncIterator[Ledger]:
    async with open_ledger(database) as opened:
        await Refund(1_000).admit(opened)
        await opened.seals.seal()
        yield opened


async def test_a_backup_is_of_one_moment_and_restores_to_a_ledger_that_holds(
    ledger: Ledger, database: str, empty_database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def go_on() -> None:
        while True:
            await Refund(1_001).admit(ledger)
            await ledger.seals.seal()

    going_on = asyncio.create_task(go_on())
    manifest = await back_up(database, tmp_path / "backup")
    going_on.cancel()
    await asyncio.gather(going_on, return_exceptions=True)
    await Refund(1_002).admit(ledger)
    assert {path.name for path in (tmp_path / "backup").iterdir()} == {"ledger.dump", "manifest.json"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "backup").iterdir())
    assert Manifest.read(tmp_path / "backup") == manifest
    assert manifest.seal >= 1

    status = await asyncio.to_thread(run, ["restore", str(tmp_path / "backup"), "--into", empty_database])
    said = capsys.readouterr()
    assert (status, said.err) == (0, "")
    assert f"Restored {manifest.events} events up to seal {manifest.seal}" in said.out
    assert f"The ledger holds: {manifest.events} events" in said.out or "more are not sealed yet" in said.out
    assert f"(seal {manifest.seal})" in said.out
    async with open_ledger(empty_database) as restored:
        await Refund(1_003).admit(restored)
        await restored.seals.check(None)
        guarded = "SELECT count(*) FROM pg_class WHERE relname IN ('events', 'calls') AND relforcerowsecurity"
        assert await restored.system.fetchval(guarded) == 2
        granted = "SELECT has_table_privilege('counterseal_worker', 'events', 'INSERT')"
        assert await restored.system.fetchval(granted)


async def test_what_was_altered_in_the_backup_is_not_restored(
    ledger: Ledger, database: str, empty_database: str, tmp_path: Path
) -> None:
    await back_up(database, tmp_path / "backup")
    with pytest.raises(BackupError, match="is not empty"):
        await restore(tmp_path / "backup", database)
    with pytest.raises(BackupError, match="is there already"):
        await back_up(database, tmp_path / "backup")
    dump = tmp_path / "backup" / DUMP
    dump.write_bytes(dump.read_bytes()[:-1])
    with pytest.raises(BackupError, match="is not as it was written"):
        await restore(tmp_path / "backup", empty_database)
    with pytest.raises(BackupError, match="holds no backup"):
        await restore(tmp_path, empty_database)
    with pytest.raises(BackupError, match="no ledger in it"):
        await back_up(empty_database, tmp_path / "other")


async def test_a_server_without_the_roles_is_told_apart(
    ledger: Ledger, database: str, empty_database: str, tmp_path: Path
) -> None:
    manifest = await back_up(database, tmp_path / "backup")
    changed = manifest.model_copy(update={"grantees": [*manifest.grantees, "nobody_here"]})
    (tmp_path / "backup" / "manifest.json").write_text(changed.model_dump_json())
    with pytest.raises(BackupError, match="lacks the roles nobody_here"):
        await restore(tmp_path / "backup", empty_database)


async def test_a_dump_that_is_not_what_the_manifest_says_is_found(
    ledger: Ledger, database: str, postgres_server: Postgres, tmp_path: Path
) -> None:
    manifest = await back_up(database, tmp_path / "backup")
    changed = manifest.model_copy(update={"rows": {**manifest.rows, "calls": 17}})
    (tmp_path / "backup" / "manifest.json").write_text(changed.model_dump_json())
    async with fresh_database(postgres_server, "template1") as empty:
        with pytest.raises(BackupError, match="rows differ"):
            await restore(tmp_path / "backup", empty)


async def test_the_key_goes_elsewhere_and_only_where_it_is_asked_for(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "master.key"
    key.write_text("an example key")
    monkeypatch.setenv("COUNTERSEAL_DATABASE_URL", database)
    monkeypatch.setenv("COUNTERSEAL_MASTER_KEY_FILE", str(key))
    out, copy = tmp_path / "backup", tmp_path / "copy.key"
    assert await asyncio.to_thread(run, ["backup", "--out", str(out), "--keys", str(out / "master.key")]) == 1
    assert "does not belong beside what it opens" in capsys.readouterr().err
    assert await asyncio.to_thread(run, ["backup", "--out", str(out), "--keys", str(copy)]) == 0
    assert "take it offline" in capsys.readouterr().err
    assert copy.read_text() == "an example key"
    assert copy.stat().st_mode & 0o077 == 0
    assert not any(b"an example key" in path.read_bytes() for path in out.iterdir())
