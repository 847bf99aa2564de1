"""One wired service for all tests of diagnostics, without Temporal workers: they run on the session's loop."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from runtime.stack.postgres import Postgres
from tests.service import SandboxUrls, Service, fresh_database, sandbox_process, service


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
    """The service, its ledger in a database of its own and the sandbox outside."""
    folder = tmp_path_factory.mktemp("service")
    async with (
        fresh_database(postgres_server, migrated_template) as database,
        service(database, temporal_server, sandbox_urls, folder) as built,
    ):
        yield built
