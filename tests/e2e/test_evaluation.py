"""`counterseal eval` over a running stack: every slice of the built-in set holds."""

import io
import json

import pytest

from runtime.cli.main import run
from tests.e2e.conftest import OUTBOX_KEY
from tests.e2e.running import RunningStack


def test_the_built_in_set_holds(
    stack: RunningStack,
    evaluated: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in evaluated.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdin", io.StringIO(OUTBOX_KEY))
    assert run(["vault", "put", "outbox", "--data", str(stack.data)]) == 0
    capsys.readouterr()
    status = run(["eval", "--json", "--data", str(stack.data)])
    said = capsys.readouterr()
    assert said.out, said.err
    told = json.loads(said.out)
    assert [each for each in told["slices"] if not each["holds"]] == []
    assert (status, told["tools_missing"]) == (0, [])
    assert (told["unauthorised_rate"], told["unsafe_chain_prevention"], told["recovery"]) == (0, 1, 1)
