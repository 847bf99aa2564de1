"""One child process: started through the launcher, logged to a file, stopped for certain."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
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

    Its output is appended to `log`. Its pid and start time stand in `pid_file` while it runs, for the next stack to
    find what a killed one left.
    """

    def __init__(self, name: str, command: Command, *, logs: Path, run: Path) -> None:
        self.name = name
        self.command = command
        self.log = logs / f"{name}.log"
        self.pid_file = run / f"{name}.pid"
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
        record_pid(self.pid_file, self._process.pid)

    async def wait(self) -> int:
        """The exit status (negative: the signal that ended it) once it has ended."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        status = await self._process.wait()
        self.pid_file.unlink(missing_ok=True)
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
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except (OSError, ValueError, KeyError, TypeError, psutil.Error):
        return None


def end_leftovers(run: Path, *, seconds: float = 10.0) -> list[str]:
    """Stop what an earlier stack left running, by the pid files in `run`. Blocks; returns the names once all are gone."""
    leftovers: dict[str, psutil.Process] = {}
    for pid_file in sorted(run.glob("*.pid")):
        process = recorded_process(pid_file)
        if process is not None:
            leftovers[pid_file.stem] = process
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGINT if pid_file.stem == "postgres" else signal.SIGTERM)
        pid_file.unlink(missing_ok=True)
    _, alive = psutil.wait_procs(list(leftovers.values()), timeout=seconds)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=seconds)
    return list(leftovers)


def _rotate(log: Path) -> None:
    if log.exists() and log.stat().st_size > LOG_SIZE_LIMIT:
        log.replace(log.with_suffix(".log.1"))
