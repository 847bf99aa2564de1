"""One sandbox process for a session's tests; each test makes its own orders and starts with an empty fault script."""

from collections.abc import Iterator

import pytest

from tests.sandbox.world import World


@pytest.fixture(scope="session")
def _shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("sandbox") / "data")
    yield world
    world.stop()


@pytest.fixture
def world(_shared_world: World) -> World:
    _shared_world.gateway.delete("/_faults").raise_for_status()
    return _shared_world
