"""The stack under test, `counterseal up` as a user runs it, and the hands that break its processes."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from runtime.stack.child import recorded_process, wait_until_ended
from runtime.stack.files import DataFolder

_UP = (sys.executable, "-m", "runtime.cli.main", "up")
_READY_SECONDS = 120
_ANSWERING_SECONDS = 20
_STOP_SECONDS = 90


class StackFailure(Exception):
    """The stack does not come up, or does not go down. The message says which, and where its output is."""


@dataclass
class ChaosStack:
    """One data folder; its supervisor is started again whenever it has ended. `output` gets what it prints."""

    data: DataFolder
    ready_file: Path
    output: Path
    environment: Mapping[str, str]
    restarts: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    async def start(self) -> None:
        """Start it and wait until everything answers. Raises StackFailure."""
        self._spawn()
        await self.until_ready()

    async def until_ready(self) -> None:
        """Wait until everything answers, for the first time or again. Raises StackFailure."""
        try:
            async with asyncio.timeout(_READY_SECONDS):
                # One that was killed leaves its ready file behind.
                while self.process("stack") is None or not self.ready_file.exists():
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise StackFailure(f"the stack is not ready after {_READY_SECONDS} s, see {self.output}") from None

    async def until_answering(self) -> None:
        """Wait, for a moment at most, until the API can do its work and there is a worker."""
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=2) as client:
            for _ in range(_ANSWERING_SECONDS * 5):
                with contextlib.suppress(httpx.HTTPError, OSError, ValueError, KeyError):
                    api = json.loads(self.ready_file.read_text())["api"]
                    if (await client.get(f"{api}/readyz")).status_code == 200 and (
                        self.data.run / "worker.ready"
                    ).exists():
                        return
                await asyncio.sleep(0.2)

    async def keep(self) -> None:
        """Until cancelled: start it again whenever it has ended. Processes that die again and again make the supervisor
        give up; then a person would start it again."""
        while True:
            if self._process is not None and self._process.poll() is not None:
                self.restarts += 1
                self._spawn()
            await asyncio.sleep(0.1)

    def process(self, name: str) -> psutil.Process | None:
        """A process of the stack by its name, `stack` for the supervisor; None while it does not run."""
        if name == "stack":
            return (
                None if self._process is None or self._process.poll() is not None else psutil.Process(self._process.pid)
            )
        return recorded_process(self.data.run / f"{name}.pid")

    def signal(self, name: str, number: signal.Signals) -> bool:
        """Send a signal; whether there was a process to take it."""
        process = self.process(name)
        with contextlib.suppress(psutil.NoSuchProcess):
            if process is not None:
                process.send_signal(number)
                return True
        return False

    async def stop(self) -> None:
        """Stop it as Ctrl-C does. Raises StackFailure when that does not work; nothing is left running then either."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            status = await asyncio.to_thread(self._process.wait, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise StackFailure(f"the stack did not stop within {_STOP_SECONDS} s, see {self.output}") from None
        if status != 0:
            raise StackFailure(f"the stack stopped with status {status}, see {self.output}")

    def kill(self) -> None:
        """End everything at once."""
        if self._process is None:
            return
        children = psutil.Process(self._process.pid).children(recursive=True) if self._process.poll() is None else []
        self._process.kill()
        self._process.wait(10)
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        wait_until_ended(children, 10)

    def _spawn(self) -> None:
        self.ready_file.unlink(missing_ok=True)
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                [*_UP, "--data", str(self.data.root), "--ready-file", str(self.ready_file)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **self.environment},
            )
