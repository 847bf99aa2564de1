"""Whole stacks (of real servers) as processes: announced, unique per folder, stopped and killed without a trace."""

import json
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest
from temporalio.client import Client

from runtime.stack.child import wait_until_ended
from runtime.stack.connection import StackInfo, find_stack
from runtime.stack.errors import StackError

PROGRAM = Path(__file__).with_name("servers_only.py")


class StackProcess:
    """A stack started in a process of its own."""

    def __init__(self, data: Path, *, port: int = 0) -> None:
        self.data = data
        self.ready_file = data.parent / f"{data.name}.ready.json"
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(data), str(self.ready_file), str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []

    def until(self, text: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if text in line:
                return
        pytest.fail(f"ended without saying {text!r}: {self.lines}")

    def info(self) -> StackInfo:
        return StackInfo.model_validate_json(self.ready_file.read_bytes())

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=40)

    def close(self) -> None:
        if self.process.poll() is None:
            self.end(signal.SIGTERM)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def stacks() -> Iterator[list[StackProcess]]:
    started: list[StackProcess] = []
    yield started
    for stack in started:
        stack.close()


def gone(processes: list[psutil.Process]) -> bool:
    return wait_until_ended(processes, seconds=15) == []


def start(stacks: list[StackProcess], data: Path, *, port: int = 0) -> StackProcess:
    stack = StackProcess(data, port=port)
    stacks.append(stack)
    stack.until("up")
    return stack


async def query(info: StackInfo, statement: str) -> object:
    connection = await asyncpg.connect(info.database)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackProcess]:
    """One stack for the tests that leave it running."""
    stack = StackProcess(tmp_path_factory.mktemp("shared") / "data")
    stack.until("up")
    yield stack
    stack.close()


async def test_a_stack_is_announced_and_serves(shared: StackProcess) -> None:
    info = shared.info()
    assert stat.S_IMODE(shared.ready_file.stat().st_mode) == 0o600
    assert find_stack(shared.data) == info
    assert await query(info, "SHOW fsync") == "on"
    client = await Client.connect(info.temporal, namespace=info.namespace)
    assert await client.service_client.check_health()
    assert {info.pids.postgres, info.pids.temporal} <= {child.pid for child in shared.children()}


async def test_a_second_stack_on_the_same_folder_is_refused(shared: StackProcess, stacks: list[StackProcess]) -> None:
    second = StackProcess(shared.data)
    stacks.append(second)
    second.until(f"process {shared.process.pid} already runs a stack on {shared.data}")
    assert second.process.wait(timeout=20) == 1
    assert shared.ready_file.exists()
    assert await query(shared.info(), "SELECT 1") == 1


async def test_a_killed_server_comes_back_at_the_same_address(shared: StackProcess) -> None:
    before = shared.info()
    await query(before, "CREATE TABLE survives (id int)")
    psutil.Process(before.pids.postgres).kill()
    shared.until("postgres was killed by SIGKILL, starting it again")
    shared.until("postgres is back")
    psutil.Process(before.pids.temporal).kill()
    shared.until("temporal was killed by SIGKILL, starting it again")
    shared.until("temporal is back")
    after = shared.info()
    assert after.pids.postgres != before.pids.postgres
    assert after.pids.temporal != before.pids.temporal
    assert await query(before, "SELECT to_regclass('survives')::text") == "survives"
    client = await Client.connect(before.temporal, namespace=before.namespace)
    assert await client.service_client.check_health()


async def test_two_folders_run_side_by_side(stacks: list[StackProcess], tmp_path: Path) -> None:
    both = [StackProcess(tmp_path / name) for name in ("one", "two")]
    stacks += both
    for stack in both:
        stack.until("up")
    one, two = (stack.info() for stack in both)
    assert one.database != two.database
    assert one.temporal != two.temporal
    assert one.service_token != two.service_token
    assert await query(one, "SELECT 1") == await query(two, "SELECT 1") == 1


async def test_after_a_kill_of_everything_the_next_start_continues(stacks: list[StackProcess], tmp_path: Path) -> None:
    stack = start(stacks, tmp_path / "data")
    before = stack.info()
    await query(before, "CREATE TABLE kept (id int)")
    everything = [*stack.children(), psutil.Process(stack.process.pid)]
    for process in everything:
        process.kill()
    stack.process.wait(timeout=20)
    assert gone(everything)
    assert stack.ready_file.exists()  # nobody could remove it …
    with pytest.raises(StackError, match="no stack is running"):  # … and nobody believes it
        find_stack(stack.data)

    after = start(stacks, tmp_path / "data").info()
    assert await query(after, "SELECT to_regclass('kept')::text") == "kept"
    assert after.model_dump(exclude={"pids"}) == before.model_dump(exclude={"pids"})


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_a_killed_supervisor_takes_its_children_along(stacks: list[StackProcess], tmp_path: Path) -> None:
    stack = start(stacks, tmp_path / "data")
    children = stack.children()
    assert stack.end(signal.SIGKILL) == -signal.SIGKILL
    assert gone(children)


def test_a_taken_port_is_replaced_and_a_stop_leaves_nothing(stacks: list[StackProcess], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        stack = start(stacks, tmp_path / "data", port=taken)
    info = stack.info()
    assert info.api != f"http://127.0.0.1:{taken}"
    ports = json.loads((tmp_path / "data" / "ports.json").read_text())
    assert info.api == f"http://127.0.0.1:{ports['api']}"

    children = stack.children()
    assert stack.end(signal.SIGTERM) == 0
    assert gone(children)
    assert not stack.ready_file.exists()
    with pytest.raises(StackError, match="no stack is running"):
        find_stack(stack.data)


def test_an_unusable_folder_is_a_readable_error(stacks: list[StackProcess], tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    stack = StackProcess(tmp_path / "data")
    stacks.append(stack)
    stack.until("cannot use")
    assert stack.process.wait(timeout=20) == 1
    assert len(stack.lines) == 1
