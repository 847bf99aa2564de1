"""A worker that dies between sending a notice and recording it: it is sent again, under the same id."""

import asyncio
import base64
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ledger.ledger import Ledger
from runtime.stack.postgres import Postgres
from tests.ledger.refunds import open_ledger, parked
from tests.notices.receivers import SECRET, Receiver, receiving
from tests.service import PATIENCE, fresh_database, until

ROOT = Path(__file__).parents[2]


@contextmanager
def worker(environment: Mapping[str, str], log: Path) -> Generator[subprocess.Popen[bytes]]:
    """One process for workflows and messages."""
    arguments = ["worker", "--queue", "workflows", "--queue", "messages"]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "runtime.cli.main", *arguments],
            cwd=log.parent,
            env=environment,
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)


def environment(database: str, temporal: str, receiver: Receiver, folder: Path) -> dict[str, str]:
    (folder / "master.key").write_text(base64.b64encode(bytes(range(32))).decode())
    channel = {"kind": "webhook", "url": receiver.url, "secret": "env:CHAT_SECRET", "private": True}
    content = {"channels": {"chat": channel}, "routes": [{"tell": ["approval_requested"], "over": ["chat"]}]}
    # JSON is YAML, too.
    (folder / "notices.yaml").write_text(json.dumps(content))
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "COUNTERSEAL_DATABASE_URL": database,
        "COUNTERSEAL_MASTER_KEY_FILE": str(folder / "master.key"),
        "COUNTERSEAL_TASK_QUEUE": f"notices-{secrets.token_hex(4)}",
        "COUNTERSEAL_NOTICES_FILE": str(folder / "notices.yaml"),
        "CHAT_SECRET": SECRET,
        "TEMPORAL_ADDRESS": temporal,
        "TEMPORAL_NAMESPACE": "default",
        "TEMPORAL_CONFIG_FILE": os.devnull,
    }


async def delivered(ledger: Ledger) -> int:
    async def look() -> int | None:
        found = await ledger.notices.recent(tenant=None, state="delivered", limit=10)
        return len(found) or None

    return await until(look)


async def test_it_is_sent_again_under_the_same_id(
    postgres_server: Postgres, migrated_template: str, temporal_server: str, tmp_path: Path
) -> None:
    async with (
        receiving() as chat,
        fresh_database(postgres_server, migrated_template) as database,
        open_ledger(database) as ledger,
    ):
        given, log = environment(database, temporal_server, chat, tmp_path), tmp_path / "worker.log"
        chat.hold = asyncio.Event()
        await parked(ledger)
        with worker(given, log) as first:
            await chat.arrived()
            first.kill()
            first.wait(PATIENCE)
        chat.hold.set()
        with worker(given, log):
            assert await delivered(ledger) == 1
        sent = [each.notice_id for each in chat.requests]
        assert len(sent) == 2, log.read_text()
        assert len(set(sent)) == 1
        assert SECRET not in log.read_text()
