"""One wired service with its workers for all workflow tests: they run on the session's loop."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from runtime.stack.postgres import Postgres
from tests.service import SandboxUrls, Service, fresh_database, sandbox_process, service, working


@pytest.fixture(scope="session")
def sandbox_urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxUrls]:
    with sandbox_process(tmp_path_factory.mktemp("sandbox")) as urls:
        yield urls


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def wired(
    postgres_server: Postgres,
    migrated_template: str,
    temporal_server: str,
    sandbox_urls: SandboxUrls,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Service]:
    """The service without workers; what is not listed two seconds after it was sent is absent."""
    folder = tmp_path_factory.mktemp("service")
    async with (
        fresh_database(postgres_server, migrated_template) as database,
        service(database, temporal_server, sandbox_urls, folder, absence_seconds=2) as built,
    ):
        yield built


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running(wired: Service) -> AsyncIterator[Service]:
    """The service with its workers."""
    async with working(wired):
        yield wired


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-histories",
        action="store_true",
        help="write the histories that are replayed anew (pytest tests/workflows --record-histories)",
    )
