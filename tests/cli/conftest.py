"""The `counterseal` program over a real database."""

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ledger.database import connect
from ledger.keys import MasterKey
from ledger.ledger import Ledger
from runtime.cli import main as program
from tests.passwords import quick_hashes

MASTER = bytes(32)


@dataclass(frozen=True)
class Ran:
    """How one command line ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """What it said on stderr, which must be one line."""
        (line,) = self.err.splitlines()
        return line


Run = Callable[..., Awaitable[Ran]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line as the console script does; `typed` is its standard input."""

    async def run(*arguments: str | Path, typed: str = "") -> Ran:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        status = await asyncio.to_thread(program.run, [str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Ran(status, said.out, said.err)

    return run


@pytest.fixture
def settings(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The settings of a production database, and of its key; the database's URL."""
    key = tmp_path / "master.key"
    key.write_text(base64.b64encode(MASTER).decode())
    monkeypatch.setenv("COUNTERSEAL_DATABASE_URL", database)
    monkeypatch.setenv("COUNTERSEAL_MASTER_KEY_FILE", str(key))
    return database


@pytest.fixture
async def ledger(settings: str) -> AsyncIterator[Ledger]:
    """The ledger that the commands find."""
    database = await connect(settings)
    with quick_hashes():
        yield Ledger.over(database, MasterKey(MASTER))
    await database.close()
