"""`counterseal eval` over a running stack: every slice of the built-in set holds."""

import json
import os
import subprocess
import sys

from tests.e2e.conftest import OUTBOX_KEY
from tests.e2e.running import RunningStack


def test_the_built_in_set_holds(stack: RunningStack, evaluated: dict[str, str]) -> None:
    def run(*command: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "runtime.cli.main", *command, "--data", str(stack.data)],
            input=typed,
            env={**os.environ, **evaluated},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    assert run("vault", "put", "outbox", typed=OUTBOX_KEY).returncode == 0
    done = run("eval", "--json")
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert [each for each in told["slices"] if not each["holds"]] == []
    assert (done.returncode, told["tools_missing"]) == (0, [])
    assert (told["unauthorised_rate"], told["unsafe_chain_prevention"], told["recovery"]) == (0, 1, 1)
