"""Every block of every page is run as its reader would, on the session's stack, and prints what the page says."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.examples import Example, examples, settled
from tests.docs.forking import stub
from tests.docs.sessions import Shell
from tests.docs.written import ROOT
from tests.e2e.running import RunningStack

SHELL_PAGES = ("docs/quickstart.md",)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the PATH that has `counterseal` in it, quick to start, and this Python."""
    folder = tmp_path_factory.mktemp("programs")
    address = folder / "counterseal.socket"
    (folder / "counterseal").write_text(stub(address), encoding="utf-8")
    (folder / "counterseal").chmod(0o755)
    (folder / "python").symlink_to(sys.executable)
    environment = {**os.environ, "COLUMNS": "150"}
    server = subprocess.Popen([sys.executable, "-m", "tests.docs.forking", str(address)], env=environment, cwd=ROOT)
    deadline = time.monotonic() + 60
    while not address.exists():
        assert server.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield folder
    server.kill()
    server.wait(10)


@pytest.fixture
def shell(stack: RunningStack, programs: Path, tmp_path: Path) -> Iterator[Shell]:
    variables = {"PATH": f"{programs}:{os.environ['PATH']}", "COUNTERSEAL_DATA": str(stack.data), "COLUMNS": "150"}
    session = Shell(tmp_path, variables)
    yield session
    session.close()


def as_written(example: Example, stack: RunningStack) -> str:
    """A block with this stack's address in place of the usual one."""
    return example.content.replace("http://127.0.0.1:8080", stack.info["api"])


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("page", SHELL_PAGES)
def test_a_page_does_what_it_says(page: str, stack: RunningStack, shell: Shell) -> None:
    printed = ""
    for example in examples(ROOT / page):
        if example.prints:
            assert settled(printed) == settled(example.content), f"{example} prints:\n{printed}"
        elif example.is_run and example.language == "sh":
            printed = shell.run(as_written(example, stack))
