"""One embedded stack for the whole session; a test that kills one starts its own."""

import os
from collections.abc import Iterator

import pytest

from runtime.evaluation.outside import environment
from tests.bank import sandbox_program
from tests.e2e.running import RunningStack

OUTBOX_KEY = "outbox-key-of-the-tests"


@pytest.fixture(scope="session")
def evaluated() -> Iterator[dict[str, str]]:
    """What the session's stack is told to have the tools of the evaluation set."""
    with sandbox_program("outbox", OUTBOX_KEY) as url:
        yield environment(os.environ, url)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, evaluated: dict[str, str]) -> Iterator[RunningStack]:
    started = RunningStack.start(tmp_path_factory.mktemp("stack") / "data", evaluated)
    yield started
    assert started.stop() == 0
