"""Child processes: logged, stopped for certain, never left behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from runtime.stack.child import (
    LOG_SIZE_LIMIT,
    Child,
    Command,
    RunAs,
    end_leftovers,
    record_pid,
    recorded_process,
    run_to_end,
    wait_until_ended,
)

STUBBORN = (
    "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (signal.SIGTERM, signal.SIGINT)]; "
    "print('ignoring', flush=True); time.sleep(600)"
)
SLEEPER = "print('here', flush=True); import time; time.sleep(600)"


def command(program: str, cwd: Path, stop_seconds: float = 10.0) -> Command:
    return Command([sys.executable, "-S", "-c", program], env={"A": "b"}, cwd=cwd, stop_seconds=stop_seconds)


def child(program: str, folder: Path, stop_seconds: float = 10.0) -> Child:
    return Child("probe", command(program, folder, stop_seconds), logs=folder, run=folder)


async def until_it_says(child: Child, text: str) -> None:
    async with asyncio.timeout(20):
        while text not in child.log.read_text():
            await asyncio.sleep(0.01)


async def test_it_runs_with_only_the_environment_given_and_logs_both_streams(tmp_path: Path) -> None:
    program = "import os, sys; print(sorted(os.environ)); print('oops', file=sys.stderr)"
    probe = child(program, tmp_path)
    await probe.start()
    assert await probe.wait() == 0
    text = probe.log.read_text()
    assert "'A'" in text
    assert "PATH" not in text
    assert "oops" in text


async def test_its_pid_is_recorded_while_it_runs(tmp_path: Path) -> None:
    probe = child(SLEEPER, tmp_path)
    await probe.start()
    recorded = recorded_process(tmp_path / "probe.pid")
    assert recorded is not None
    assert recorded.pid == probe.pid
    await probe.stop()
    assert probe.pid is None
    assert not (tmp_path / "probe.pid").exists()


async def test_one_that_ignores_the_request_to_stop_is_killed(tmp_path: Path) -> None:
    probe = child(STUBBORN, tmp_path, stop_seconds=0.2)
    await probe.start()
    await until_it_says(probe, "ignoring")
    await probe.stop()
    assert await probe.wait() == -signal.SIGKILL


async def test_output_is_appended_and_a_large_log_is_set_aside(tmp_path: Path) -> None:
    for _ in range(2):
        assert await run_to_end(command("print('line')", tmp_path), tmp_path / "job.log") == 0
    assert (tmp_path / "job.log").read_text() == "line\nline\n"
    (tmp_path / "job.log").write_bytes(b"x" * (LOG_SIZE_LIMIT + 1))
    await run_to_end(command("print('line')", tmp_path), tmp_path / "job.log")
    assert (tmp_path / "job.log").read_text() == "line\n"
    assert (tmp_path / "job.log.1").stat().st_size == LOG_SIZE_LIMIT + 1


async def test_a_program_that_is_missing_is_named_in_the_log(tmp_path: Path) -> None:
    missing = Command(argv=["/does/not/exist"], env={}, cwd=tmp_path)
    assert await run_to_end(missing, tmp_path / "job.log") == 1
    assert "/does/not/exist" in (tmp_path / "job.log").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
async def test_it_dies_with_its_supervisor(tmp_path: Path) -> None:
    program = f"""
import asyncio, sys
from pathlib import Path
from runtime.stack.child import Child, Command
async def main():
    folder = Path({str(tmp_path)!r})
    probe = Child("probe", Command([sys.executable, "-S", "-c", {STUBBORN!r}], {{}}, folder), logs=folder, run=folder)
    await probe.start()
    while "ignoring" not in probe.log.read_text():
        await asyncio.sleep(0.01)
    print(probe.pid, flush=True)
    await probe.wait()
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        orphan = psutil.Process(int(supervisor.stdout.readline()))
        supervisor.kill()
        supervisor.wait()
    assert wait_until_ended([orphan], seconds=10) == []


def test_leftovers_are_ended_and_strangers_are_not(tmp_path: Path) -> None:
    with (
        subprocess.Popen([sys.executable, "-S", "-c", SLEEPER], stdout=subprocess.DEVNULL) as leftover,
        subprocess.Popen([sys.executable, "-S", "-c", SLEEPER], stdout=subprocess.DEVNULL) as stranger,
    ):
        record_pid(tmp_path / "api.pid", leftover.pid)
        # The pid is used again: by a process that began at another time than the one that was recorded.
        (tmp_path / "worker.pid").write_text(json.dumps({"pid": stranger.pid, "started": 1.0}))
        (tmp_path / "broken.pid").write_text("{")
        assert end_leftovers(tmp_path, seconds=10) == ["api"]
        assert leftover.poll() == -signal.SIGTERM
        assert stranger.poll() is None
        stranger.kill()
    assert list(tmp_path.glob("*.pid")) == []


def test_a_recorded_process_that_has_ended_is_not_found(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as ended:
        record_pid(tmp_path / "x.pid", ended.pid)
    assert recorded_process(tmp_path / "x.pid") is None


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="needs root on Linux")
async def test_another_user_can_enter_closed_folders_only_with_access_kept(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    secret = tmp_path / "closed" / "file"
    secret.write_text("text")
    for keep_access, status in ((True, 0), (False, 1)):
        run_as = RunAs(uid=65534, gid=65534, keep_access=keep_access)
        for program in (["/bin/cat", secret], ["/usr/bin/test", "-r", secret]):  # open(2) and access(2)
            command = Command(program, env={}, cwd=tmp_path, run_as=run_as)
            assert await run_to_end(command, tmp_path / "access.log") == status


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="needs root on Linux")
async def test_kept_access_is_all_that_is_kept(tmp_path: Path) -> None:
    run_as = RunAs(uid=65534, gid=65534, keep_access=True)
    show = Command(["/bin/grep", "Cap[IPEA]", "/proc/self/status"], env={}, cwd=tmp_path, run_as=run_as)
    assert await run_to_end(show, tmp_path / "capabilities.log") == 0
    sets = [line.split()[1] for line in (tmp_path / "capabilities.log").read_text().splitlines()]
    assert {int(capabilities, 16) for capabilities in sets} == {1 << 1}  # CAP_DAC_OVERRIDE


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
async def test_another_user_is_really_another_user(tmp_path: Path) -> None:
    identity = Command(["/usr/bin/id"], env={}, cwd=tmp_path, run_as=RunAs(uid=65534, gid=65534, keep_access=True))
    assert await run_to_end(identity, tmp_path / "id.log") == 0
    text = (tmp_path / "id.log").read_text()
    assert "uid=65534" in text
    assert "(root)" not in text
