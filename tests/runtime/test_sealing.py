"""The loop that seals, what it writes down outside of the database, and who refuses to start when that says more."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from pydantic import SecretStr

from ledger.checkpoints import Checkpoint
from ledger.ledger import Ledger
from ledger.seals import SealBroken
from runtime.assembly import core
from runtime.checkpoints import CheckpointFile, CheckpointFileBroken
from runtime.sealing import Sealing
from runtime.settings import Settings, SettingsError
from runtime.stack.postgres import Postgres
from tests.ledger.refunds import Refund, new_binding, open_ledger
from tests.ledger.tampering import tamper
from tests.service import fresh_database


@pytest.fixture
async def ledger(database: str) -> AsyncIterator[Ledger]:
    async with open_ledger(database) as opened:
        yield opened


@pytest.fixture
def file(tmp_path: Path) -> CheckpointFile:
    return CheckpointFile(tmp_path / "checkpoints.jsonl")


async def test_every_checkpoint_is_written_down(ledger: Ledger, file: CheckpointFile, tmp_path: Path) -> None:
    assert file.last() is None
    sealing = asyncio.create_task(Sealing(ledger, file).run(lambda: None, every_seconds=0.01))
    for amount in (1_000, 1_001):
        await Refund(amount).admit(ledger)
        total = await ledger.system.fetchval("SELECT count(*) FROM events")
        async with asyncio.timeout(20):
            while (last := file.last()) is None or last.size < total:
                await asyncio.sleep(0.01)
    sealing.cancel()
    lines = (tmp_path / "checkpoints.jsonl").read_text().splitlines()
    assert [Checkpoint.parse(json.loads(line)["checkpoint"]).number for line in lines] == [
        row["number"] for row in await ledger.system.fetch("SELECT number FROM seals ORDER BY number")
    ]
    await ledger.seals.check(file.last())
    assert oct((tmp_path / "checkpoints.jsonl").stat().st_mode).endswith("600")


async def test_a_ledger_that_went_back_ends_the_process(ledger: Ledger, database: str, file: CheckpointFile) -> None:
    await Refund(1_000).admit(ledger)
    sealing = Sealing(ledger, file)
    assert await sealing.seal() is False
    await tamper(database, "DELETE FROM seals")
    ended = asyncio.Event()
    async with asyncio.timeout(20):
        await sealing.run(ended.set, every_seconds=0.01)
    assert ended.is_set()


async def test_a_file_that_cannot_be_written_stops_nothing(ledger: Ledger, tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path / "gone" / "checkpoints.jsonl")
    await Refund(1_000).admit(ledger)
    await Sealing(ledger, file).seal()
    (tmp_path / "gone").mkdir()
    await Refund(1_001).admit(ledger)
    await Sealing(ledger, file).seal()
    last = file.last()
    assert last is not None
    assert last.number == 2


async def test_a_line_that_was_torn_is_passed_over(ledger: Ledger, file: CheckpointFile, tmp_path: Path) -> None:
    path = tmp_path / "checkpoints.jsonl"
    for amount in (1_000, 1_001, 1_002):
        await Refund(amount).admit(ledger)
        await Sealing(ledger, file).seal()
        if amount == 1_001:
            path.write_bytes(path.read_bytes()[:-40])
            torn = file.last()
            assert torn is not None
            assert torn.number == 1
    last = file.last()
    assert last is not None
    assert last.number == 3


async def test_a_cosignature_that_comes_late_makes_nothing_older(
    ledger: Ledger, file: CheckpointFile, tmp_path: Path
) -> None:
    for amount in (1_000, 1_001):
        await Refund(amount).admit(ledger)
        await Sealing(ledger, file).seal()
    first = (tmp_path / "checkpoints.jsonl").read_text().splitlines(keepends=True)[0]
    with (tmp_path / "checkpoints.jsonl").open("a") as opened:
        opened.write(first)
    last = file.last()
    assert last is not None
    assert last.number == 2


@pytest.mark.parametrize("content", ["{}\n", "x\n", '{"checkpoint": "x"}\n', '{"checkpoint": 1}\n', "[]\n"])
def test_anything_else_is_no_file_of_checkpoints(file: CheckpointFile, tmp_path: Path, content: str) -> None:
    (tmp_path / "checkpoints.jsonl").write_text(content)
    with pytest.raises(CheckpointFileBroken, match="does not end with a checkpoint"):
        file.last()


async def test_no_process_starts_on_a_ledger_that_lost_its_end(
    ledger: Ledger, database: str, file: CheckpointFile, tmp_path: Path
) -> None:
    await Refund(1_000).admit(ledger)
    await Sealing(ledger, file).seal()
    key = tmp_path / "master.key"
    key.write_text(base64.b64encode(bytes(range(32))).decode())
    settings = Settings(
        database_url=SecretStr(database), master_key_file=key, checkpoints_file=tmp_path / "checkpoints.jsonl"
    )
    await tamper(database, "DELETE FROM events WHERE id = (SELECT max(id) FROM events)")
    with pytest.raises(SettingsError, match="not as it was sealed: 1 events are missing that seal 1 covers"):
        async with core(settings):
            pass
    await tamper(database, "DELETE FROM seals")
    with pytest.raises(SettingsError, match="has no seal, and seal 1 was written down outside of it"):
        async with core(settings):
            pass


async def test_a_restored_database_that_was_appended_to_is_told_from_the_ledger(
    database: str, postgres_server: Postgres, file: CheckpointFile
) -> None:
    """Both go on with the same calls: what is encrypted differs, and the checkpoint of one does not fit the other."""
    binding = new_binding()
    async with open_ledger(database) as ledger:
        await Refund(1_000, binding=binding).admit(ledger)
        await ledger.seals.seal()
    repeated = Refund(1_001, binding=binding)
    appended: list[list[asyncpg.Record]] = []
    async with (
        fresh_database(postgres_server, database.rpartition("/")[2]) as copy,
        open_ledger(database) as ledger,
        open_ledger(copy) as restored,
    ):
        for each, kept in ((ledger, file), (restored, None)):
            await repeated.admit(each)
            await Sealing(each, kept).seal()
            query = "SELECT id, body FROM events WHERE request_id = $1 ORDER BY n"
            appended.append(await each.system.fetch(query, repeated.request_id))
        with pytest.raises(SealBroken, match="seal 2 is another one than was written down outside"):
            await restored.seals.check(file.last())
        await ledger.seals.check(file.last())
    here, there = appended
    nonces = {row["body"][:12] for row in (*here, *there)}
    assert len(nonces) == len(here) + len(there) > 3
    assert [row["id"] for row in here] == [row["id"] for row in there]
