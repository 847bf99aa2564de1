"""`counterseal eval` over a running stack: every slice of the built-in set holds."""

import json
import subprocess
import sys

from tests.e2e.running import RunningStack


def test_the_built_in_set_holds(stack: RunningStack) -> None:
    command = [sys.executable, "-m", "runtime.cli.main", "eval", "--data", str(stack.data), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert [each for each in told["slices"] if not each["holds"]] == []
    assert done.returncode == 0
    assert (told["unauthorised_rate"], told["recovery"]) == (0, 1)
