"""The supervisor with small processes in place of servers: order, replacement, giving up, stopping."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from runtime.stack import supervisor as module
from runtime.stack.child import Command
from runtime.stack.errors import StackError
from runtime.stack.supervisor import Service, Supervisor

SLEEPER = "import time; time.sleep(600)"


@dataclass
class Diary:
    """What the supervisor did, in order."""

    lines: list[str] = field(default_factory=list[str])
    pids: list[dict[str, int]] = field(default_factory=list[dict[str, int]])

    def notes(self, what: str) -> Callable[[], Awaitable[None]]:
        async def note() -> None:
            self.lines.append(what)

        return note


def service(
    name: str,
    folder: Path,
    diary: Diary,
    program: str = SLEEPER,
    needs: tuple[str, ...] = (),
    stop_takes: float = 0.0,
) -> Service:
    """A process that is ready as soon as it has said so in a file; it notes that it was stopped."""
    ready = folder / f"{name}.ready"
    stopped = folder / "stopped"
    source = f"""
import signal, sys, time
def stop(*_):
    time.sleep({stop_takes})
    with open({str(stopped)!r}, "a") as file: file.write({name + chr(10)!r})
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
open({str(ready)!r}, "w").close()
{program}
"""

    async def is_ready() -> bool:
        return ready.exists()

    async def prepare() -> None:
        ready.unlink(missing_ok=True)
        diary.lines.append(f"prepare {name}")

    def command() -> Command:
        return Command([sys.executable, "-S", "-c", source], env={}, cwd=folder)

    return Service(name, command, is_ready, prepare=prepare, setup=diary.notes(f"setup {name}"), needs=needs)


@asynccontextmanager
async def running(folder: Path, diary: Diary, *services: Service) -> AsyncGenerator[tuple[Supervisor, asyncio.Event]]:
    stop = asyncio.Event()
    supervisor = Supervisor(services, logs=folder, run=folder, report=diary.lines.append, changed=diary.pids.append)
    task = asyncio.create_task(supervisor.run(stop))
    try:
        await until(lambda: bool(diary.pids) or task.done())
        yield supervisor, stop
    finally:
        stop.set()
        await task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_what_is_needed_is_set_up_first_and_stopped_last(tmp_path: Path) -> None:
    diary = Diary()
    api = service("api", tmp_path, diary, needs=("database", "queue"), stop_takes=0.5)
    database, queue = service("database", tmp_path, diary), service("queue", tmp_path, diary)
    async with running(tmp_path, diary, api, database, queue) as (supervisor, _):
        pids = supervisor.pids
        assert set(pids) == {"api", "database", "queue"}
    assert max(diary.lines.index("setup database"), diary.lines.index("setup queue")) < diary.lines.index("prepare api")
    assert (tmp_path / "stopped").read_text().split()[0] == "api"
    assert sorted((tmp_path / "stopped").read_text().split()) == ["api", "database", "queue"]
    assert not any(psutil.pid_exists(pid) for pid in pids.values())


async def test_independent_services_start_side_by_side(tmp_path: Path) -> None:
    diary = Diary()
    both = [service(name, tmp_path, diary) for name in ("one", "two")]
    async with running(tmp_path, diary, *both):
        pass
    assert diary.lines[:2] == ["prepare one", "prepare two"]


async def test_one_that_dies_is_replaced_and_set_up_only_once(tmp_path: Path) -> None:
    diary = Diary()
    async with running(tmp_path, diary, service("api", tmp_path, diary)) as (supervisor, _):
        first = supervisor.pids["api"]
        os.kill(first, signal.SIGKILL)
        await until(lambda: len(diary.pids) == 2)
        second = supervisor.pids["api"]
        assert second != first
        assert diary.pids == [{"api": first}, {"api": second}]
    assert diary.lines.count("setup api") == 1
    assert any(line.startswith("api was killed by SIGKILL, starting it again") for line in diary.lines)


async def test_one_that_dies_five_times_stops_everything_and_names_its_log(tmp_path: Path) -> None:
    diary = Diary()
    healthy = service("database", tmp_path, diary)
    broken = service("api", tmp_path, diary, program="sys.exit(3)")
    supervisor = Supervisor(
        [healthy, broken], logs=tmp_path, run=tmp_path, report=diary.lines.append, changed=diary.pids.append
    )
    began = time.monotonic()
    with pytest.raises(StackError, match=rf"api ended with status 3, 5 times .* see {tmp_path}/api\.log"):
        await supervisor.run(asyncio.Event())
    assert diary.lines.count("prepare api") == 5
    assert time.monotonic() - began > 0.1 + 0.2 + 0.4 + 0.8  # the pauses grow
    assert supervisor.pids == {}
    assert (tmp_path / "stopped").read_text() == "database\n"


async def test_one_that_never_answers_is_an_error_that_names_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.3)

    async def never() -> bool:
        return False

    mute = Service("mute", lambda: Command([sys.executable, "-S", "-c", SLEEPER], env={}, cwd=tmp_path), never)
    supervisor = Supervisor([mute], logs=tmp_path, run=tmp_path, report=lambda _: None, changed=lambda _: None)
    with pytest.raises(StackError, match=r"mute did not answer within .* see .*mute\.log"):
        await supervisor.run(asyncio.Event())
    assert supervisor.pids == {}


async def test_a_failing_setup_stops_everything(tmp_path: Path) -> None:
    diary = Diary()

    async def fail() -> None:
        raise StackError("the database is from the future")

    plain = service("database", tmp_path, diary)
    broken = Service("database", plain.command, plain.ready, plain.prepare, setup=fail)
    supervisor = Supervisor([broken], logs=tmp_path, run=tmp_path, report=lambda _: None, changed=lambda _: None)
    with pytest.raises(StackError, match="from the future"):
        await supervisor.run(asyncio.Event())
    assert supervisor.pids == {}


async def test_a_stop_while_starting_leaves_nothing(tmp_path: Path) -> None:
    diary = Diary()
    stop = asyncio.Event()

    async def never() -> bool:
        return False

    slow = Service("slow", lambda: Command([sys.executable, "-S", "-c", SLEEPER], env={}, cwd=tmp_path), never)
    after = service("after", tmp_path, diary, needs=("slow",))
    supervisor = Supervisor([slow, after], logs=tmp_path, run=tmp_path, report=lambda _: None, changed=lambda _: None)
    task = asyncio.create_task(supervisor.run(stop))
    await until(lambda: "slow" in supervisor.pids)
    pid = supervisor.pids["slow"]
    stop.set()
    await task
    assert not psutil.pid_exists(pid)
    assert diary.lines == []


async def test_hurry_does_not_wait_for_a_clean_stop(tmp_path: Path) -> None:
    diary = Diary()
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN); import time\nwhile True: time.sleep(600)"
    services = [service("api", tmp_path, diary, stubborn, needs=("database",)), service("database", tmp_path, diary)]
    began = time.monotonic()
    async with running(tmp_path, diary, *services) as (supervisor, stop):
        stop.set()
        await asyncio.sleep(0)
        supervisor.hurry()
    assert supervisor.pids == {}
    assert time.monotonic() - began < 5  # the clean stop would wait 10 s for the stubborn one
