"""What only a look at the server's folder can tell."""

import asyncio
import os
import subprocess
from pathlib import Path

import psutil
import pytest

from runtime.stack.child import Child
from runtime.stack.files import DataFolder
from runtime.stack.ports import PortClaims
from runtime.stack.postgres import Postgres
from runtime.stack.supervisor import Service, Supervisor


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    folder = DataFolder(tmp_path / "data")
    folder.create()
    return folder


def server(folder: DataFolder) -> Postgres:
    with PortClaims() as claims:
        port = claims.claim_any()
    return Postgres(folder.postgres, folder.keys, folder.logs / "postgres.log", port, {"fsync": "off"})


async def starts(postgres: Postgres, folder: DataFolder) -> bool:
    """Start the server, ask it something, stop it."""
    stop = asyncio.Event()
    answered: list[dict[str, int]] = []

    def changed(pids: dict[str, int]) -> None:
        answered.append(pids)
        stop.set()

    service = Service("postgres", postgres.command, postgres.ready, prepare=postgres.prepare)
    supervisor = Supervisor([service], logs=folder.logs, run=folder.run, report=lambda _: None, changed=changed)
    await supervisor.run(stop)
    return bool(answered)


async def test_a_lock_file_with_the_pid_of_another_program_does_not_keep_it_from_starting(folder: DataFolder) -> None:
    postgres = server(folder)
    await postgres.prepare()
    owner = folder.postgres.stat()
    # Postgres looks only at processes of its own user.
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, user=owner.st_uid, group=owner.st_gid) as stranger:
        lock = folder.postgres / "postmaster.pid"
        lock.write_text(f"{stranger.pid}\n{folder.postgres}\n")
        os.chown(lock, owner.st_uid, owner.st_gid)
        assert await starts(postgres, folder)
        assert stranger.poll() is None
        stranger.kill()


async def test_a_cluster_that_was_not_finished_is_made_anew(folder: DataFolder) -> None:
    unfinished = folder.root / "postgres.new"
    unfinished.mkdir()
    (unfinished / "PG_VERSION").write_text("18")
    assert await starts(server(folder), folder)
    assert not unfinished.exists()
    assert not list(folder.root.glob("*.password"))


async def test_it_listens_on_loopback_tcp_alone(folder: DataFolder) -> None:
    postgres = server(folder)
    await postgres.prepare()
    child = Child("postgres", postgres.command(), logs=folder.logs, run=folder.run)
    await child.start()
    try:
        while not await postgres.ready():
            assert child.pid is not None
        addresses = {
            connection.laddr
            for connection in psutil.Process(child.pid).net_connections("all")
            if connection.status == psutil.CONN_LISTEN or isinstance(connection.laddr, str)
        }
        assert addresses == {("127.0.0.1", postgres.port)}
    finally:
        await child.stop()
