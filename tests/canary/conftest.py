"""One world for all stages, gone before other tests run, and what it wrote down; the matrix is written at the end."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from runtime.stack.files import DataFolder
from runtime.stack.postgres import Postgres
from tests.canary import matrix
from tests.canary.sinks import Leak, Logs, Metrics, Spans, logging_to_memory
from tests.canary.world import World, world

_PLAYED = pytest.StashKey[dict[str, list[Leak]]]()


@dataclass(frozen=True)
class Watched:
    """The world, and everything that it tells about itself."""

    world: World
    logs: Logs
    spans: Spans
    metrics: Metrics
    played: dict[str, list[Leak]] = field(default_factory=dict[str, list[Leak]])


@pytest.fixture(scope="module")
def logs(postgres_server: Postgres, temporal_server: str, _servers_folder: DataFolder) -> Iterator[Logs]:
    """The process's log at DEBUG, from before anything connects, and those of both servers."""
    with logging_to_memory(sorted(_servers_folder.logs.glob("*.log"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def spans() -> Iterator[Spans]:
    exporting = Spans()
    yield exporting
    exporting.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def watched(
    logs: Logs,
    spans: Spans,
    postgres_server: Postgres,
    migrated_template: str,
    temporal_server: str,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Watched]:
    played = request.config.stash.setdefault(_PLAYED, {})
    measured = Metrics()
    folder = tmp_path_factory.mktemp("canary")
    with pytest.MonkeyPatch.context() as patch:
        # How long a read is repeated is no matter here; that it is, is.
        patch.setattr("activities.proposals._PAUSES", (0.0,))
        async with world(postgres_server, migrated_template, temporal_server, folder) as made:
            yield Watched(made, logs, spans, measured, played)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the matrix, and keep it where the command that writes the page finds it."""
    played = config.stash.get(_PLAYED, None)
    if not played:
        return
    table = matrix.table(played)
    matrix.ARTIFACT.parent.mkdir(exist_ok=True)
    matrix.ARTIFACT.write_text(table, encoding="utf-8")
    terminalreporter.section("canary")
    terminalreporter.write(table)
