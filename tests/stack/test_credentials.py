import stat
from pathlib import Path

import pytest

from runtime.stack.credentials import load_or_create
from runtime.stack.errors import StackError


def test_they_are_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    first = load_or_create(path)
    assert load_or_create(path) == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [approver.username for approver in first.approvers] == ["ana", "ben"]
    everything = [first.service_token, first.operator_token]
    everything += [secret for approver in first.approvers for secret in (approver.password, approver.token)]
    assert len(set(everything)) == 6
    assert min(len(secret) for secret in everything) >= 16


def test_damage_is_a_readable_error_that_quotes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    path.write_text('{"service_token": "hidden"}')
    with pytest.raises(StackError) as error:
        load_or_create(path)
    assert "hidden" not in str(error.value)
    assert error.value.__cause__ is None
