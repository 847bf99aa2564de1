"""One embedded stack for the whole session; a test that kills one starts its own."""

from collections.abc import Iterator

import pytest

from tests.e2e.running import RunningStack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    started = RunningStack.start(tmp_path_factory.mktemp("stack") / "data")
    yield started
    assert started.stop() == 0
