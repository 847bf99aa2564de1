"""One child process: started through the launcher, logged to a file, stopped for certain."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from runtime.stack.files import write_private

LAUNCHER = Path(__file__).with_name("launcher.py")
LOG_SIZE_LIMIT = 10 * 1024 * 1024


@dataclass(frozen=True)
class RunAs:
    """Another user to run as. With `keep_access` it may still enter folders that only root can."""

    uid: int
    gid: int
    keep_access: bool


@dataclass(frozen=True)
class Command:
    """What to run. `env` is the child's whole environment; a program is given by its path."""

    argv: Sequence[str | Path]
    env: Mapping[str, str]
    cwd: Path
    run_as: RunAs | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    death_signal: signal.Signals = signal.SIGKILL


def launcher_arguments(command: Command) -> list[str]:
    """The launcher's command line that turns into `command` and dies with this process."""
    options: dict[str, object] = {"parent": os.getpid(), "death_signal": int(command.death_signal)}
    if command.run_as is not None:
        options |= {"uid": command.run_as.uid, "gid": command.run_as.gid, "keep_access": command.run_as.keep_access}
    argv = [str(part) for part in command.argv]
    return [sys.executable, "-I", "-S", str(LAUNCHER), json.dumps(options), "--", *argv]


class Child:
    """A named process of the stack.

    Its output is appended to a file in `logs`. Its pid and start time stand in a file in `run` (if given) while it
    runs, for the next stack to find what a killed one left.
    """

    def __init__(self, name: str, command: Command, *, logs: Path, run: Path | None) -> None:
        self.name = name
        self.command = command
        self.log = logs / f"{name}.log"
        self._pid_file = None if run is None else run / f"{name}.pid"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        """Start the process. It leads a session of its own, so that a terminal's Ctrl-C reaches only the supervisor."""
        _rotate(self.log)
        descriptor = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *launcher_arguments(self.command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                env=dict(self.command.env),
                cwd=self.command.cwd,
                start_new_session=True,
            )
        finally:
            os.close(descriptor)
        if self._pid_file is not None:
            record_pid(self._pid_file, self._process.pid)

    async def wait(self) -> int:
        """The exit status (negative: the signal that ended it) once it has ended."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        status = await self._process.wait()
        if self._pid_file is not None:
            self._pid_file.unlink(missing_ok=True)
        return status

    async def stop(self) -> None:
        """Ask it to stop, kill it when it has not within `stop_seconds`; returns when it is gone."""
        if self._process is None:
            return
        self._signal(self.command.stop_signal)
        try:
            async with asyncio.timeout(self.command.stop_seconds):
                await self.wait()
        except TimeoutError:
            self.kill()
            await self.wait()

    def kill(self) -> None:
        """End it at once."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)


def record_pid(pid_file: Path, pid: int) -> None:
    """Note which process this is: its pid and when it began, since pids are used again."""
    with contextlib.suppress(psutil.NoSuchProcess):
        write_private(pid_file, json.dumps({"pid": pid, "started": psutil.Process(pid).create_time()}))


def recorded_process(pid_file: Path) -> psutil.Process | None:
    """The process noted in `pid_file`, if that very process still runs."""
    try:
        record = json.loads(pid_file.read_bytes())
        process = psutil.Process(record["pid"])
        # The start time is derived from the boot time, which the clock's adjustments move a little.
        same = abs(process.create_time() - record["started"]) < 2
        return process if same and _runs(process) else None
    except (OSError, ValueError, KeyError, TypeError, psutil.Error):
        return None


def end_leftovers(run: Path, *, seconds: float = 10.0) -> list[str]:
    """Stop what an earlier stack left running, by the pid files in `run`; returns its names. Blocks until it is gone.

    Postgres is asked for its fast shutdown, everything else to terminate; what does not end in `seconds` is killed.
    """
    leftovers: dict[str, psutil.Process] = {}
    for pid_file in sorted(run.glob("*.pid")):
        process = recorded_process(pid_file)
        if process is not None:
            leftovers[pid_file.stem] = process
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGINT if pid_file.stem == "postgres" else signal.SIGTERM)
        pid_file.unlink(missing_ok=True)
    alive = wait_until_ended(leftovers.values(), seconds)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    wait_until_ended(alive, seconds)
    return list(leftovers)


def wait_until_ended(processes: Iterable[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Wait for other programs' children; returns those that still run after `seconds`.

    One that has ended but was not reaped (a container's first process may never do that) has ended.
    """
    deadline = time.monotonic() + seconds
    alive = [process for process in processes if _runs(process)]
    while alive and time.monotonic() < deadline:
        time.sleep(0.02)
        alive = [process for process in alive if _runs(process)]
    return alive


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _rotate(log: Path) -> None:
    if log.exists() and log.stat().st_size > LOG_SIZE_LIMIT:
        log.replace(log.with_suffix(".log.1"))


async def run_to_end(command: Command, log: Path) -> int:
    """Run `command`, its output appended to `log`, and return its exit status; it is killed when this is cancelled."""
    child = Child(log.stem, command, logs=log.parent, run=None)
    try:
        await child.start()
        return await child.wait()
    except asyncio.CancelledError:
        child.kill()
        raise
