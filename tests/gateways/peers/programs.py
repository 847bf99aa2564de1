"""Programs that play the remote side, started on 127.0.0.1 and stopped by pid."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.gateways.peers.peer import Urls

ROOT = Path(__file__).parents[3]
PEERS = ROOT / ".peers"
"""Where `make peers` installs what is not ours."""
FOREIGN = Path(__file__).parent / "foreign"


def node() -> str | None:
    """The Node that the peers are installed for."""
    return shutil.which("node", path=PEERS / "bin") or shutil.which("node")


@contextmanager
def program(command: Sequence[str], ready: Path, env: Mapping[str, str] | None = None) -> Generator[Urls]:
    """Runs the command until it is done with. The base URLs are those that it writes into the file `ready`.

    Its standard input ends with the tests, also when they are killed.
    """
    log = ready.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        give_up = time.monotonic() + 30
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > give_up:
                pytest.fail(f"{command[0]} did not start:\n{log.read_text()}")
            time.sleep(0.02)
        content = json.loads(ready.read_text())
        yield {name: value for name, value in content.items() if isinstance(value, str)}
    finally:
        process.terminate()
        process.wait(10)
        if process.stdin is not None:
            process.stdin.close()
