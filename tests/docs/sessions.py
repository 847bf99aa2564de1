"""A page's shell: one bash for all of its blocks."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

_ENDED = "\x1eended\n"


class Shell:
    """`bash` that stops at the first command which fails. `variables` is its environment, `typed` what each command
    that asks for something finds on its standard input."""

    def __init__(self, folder: Path, variables: Mapping[str, str], typed: str = "") -> None:
        self._said = folder / ".stderr"
        self._block = folder / ".block"
        (folder / ".typed").write_text(typed, encoding="utf-8")
        with self._said.open("wb") as errors:
            self._process = subprocess.Popen(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail"],
                cwd=folder,
                env=dict(variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )

    def run(self, block: str, seconds: float = 60) -> str:
        """What `block` prints. AssertionError when a command of it fails, or it takes too long."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        self._block.write_text(block, encoding="utf-8")
        stdin.write(f"source .block < .typed; printf '{_ENDED}'\n".encode())
        stdin.flush()
        output, deadline = b"", time.monotonic() + seconds
        while not output.endswith(_ENDED.encode()):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                raise AssertionError(f"not ended after {seconds} seconds:\n{block}\n{self._complaint(output)}")
            got = os.read(stdout.fileno(), 65536)
            if not got:
                raise AssertionError(f"a command failed:\n{block}\n{self._complaint(output)}")
            output += got
        return output.decode().removesuffix(_ENDED)

    def _complaint(self, output: bytes) -> str:
        return output.decode(errors="replace") + self._said.read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        """End it, with everything that it started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
