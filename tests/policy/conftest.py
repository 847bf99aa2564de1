"""The default policy, and a place for others."""

from collections.abc import Callable
from pathlib import Path

import pytest

from policy.load import DEFAULT_POLICY, load_policy
from policy.model import Policy


@pytest.fixture(scope="session")
def default() -> Policy:
    return load_policy(DEFAULT_POLICY)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Puts a policy into a file."""

    def write(text: str) -> Path:
        path = tmp_path / "policy.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write
