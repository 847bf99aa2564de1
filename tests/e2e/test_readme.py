"""The README's commands do what it says, typed as they stand there."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.running import RunningStack

ROOT = Path(__file__).parents[2]


def quickstart() -> str:
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Call it")[2]
    found = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


def run(stack: RunningStack, script: str) -> dict[str, object]:
    environment = {"PATH": os.environ["PATH"], "COUNTERSEAL_DATA": str(stack.data)}
    ended = subprocess.run(["bash", "-euc", script], env=environment, capture_output=True, check=True, timeout=60)
    return json.loads(ended.stdout)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_quickstart(stack: RunningStack) -> None:
    script = quickstart()
    assert "API=http://127.0.0.1:8080" in script
    script = script.replace("http://127.0.0.1:8080", stack.info["api"])
    script = script.replace(".venv/bin/counterseal", str(Path(sys.executable).with_name("counterseal")))
    first = run(stack, script)
    assert (first["ok"], first["status"], first["code"]) == (True, "executed", "OK")
    assert isinstance(first["result"], dict)
    assert first["result"]["amount_cents"] == 4999
    assert run(stack, script) == first
