"""Servers for the tests: one real Postgres and one real Temporal per session, a fresh database per test."""

import asyncio
import gc
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from ledger.migrate import migrate
from runtime.stack.child import Child, Command
from runtime.stack.files import DataFolder
from runtime.stack.ports import PortClaims
from runtime.stack.postgres import DATABASE, Postgres
from runtime.stack.temporal import Temporal
from tests.service import fresh_database

TESTS = Path(__file__).parent

# All that is imported and collected stays: every process is spared looking through it for garbage while it grows, and
# again in every test.
gc.disable()

# What takes longest begins first, so that no process is left alone with it at the end.
LONGEST = (
    "chaos/test_short_run.py",
    "e2e/test_sequences.py",
    "e2e/test_recovery.py",
    "stack/test_running.py",
    "model/test_model.py",
    "browser/",
    "e2e/",
    "canary/",
    "stack/",
    "api/",
    "ledger/",
    "workflows/",
)

# What speaks to the session's stack stays together in one process, so that one is started and not four.
_CLIENT = ("client", "client_examples", "client_pages", "client_temporal", "typescript")
_API = ("browser", "calls", "evaluation", "examples", "histories", "metrics", "traces", "webhooks")
ONE_STACK = tuple(f"e2e/test_{name}.py" for name in (*_CLIENT, *_API))

# Nothing of a test database has to survive a power cut.
UNSAFE_BUT_QUICK = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "max_wal_size": "128MB",
    # Passwords here are long and random, and every test connects a few times.
    "scram_iterations": "1",
}
# Where Linux keeps files in memory: a database is made there in a fifth of the time that it takes on a disk.
MEMORY, ENOUGH = Path("/dev/shm"), 4 * 2**30


class _Scheduling(LoadFileScheduling):
    """A file's tests run in one process, and so do those of the files of `ONE_STACK`."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "one stack" if file.endswith(ONE_STACK) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    return _Scheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        file = item.path.relative_to(TESTS).as_posix()
        return next((n for n, begin in enumerate(LONGEST) if file.startswith(begin)), len(LONGEST))

    items.sort(key=rank)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def _runner() -> Iterator[asyncio.Runner]:
    """The event loop that the session's servers are watched from; it never becomes the tests' current loop."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        yield runner


@pytest.fixture(scope="session")
def _servers_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataFolder]:
    roomy = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH
    parent = MEMORY if roomy else tmp_path_factory.mktemp("servers")
    with tempfile.TemporaryDirectory(prefix="counterseal-tests-", dir=parent) as root:
        # Postgres may run as another user, who has to pass.
        Path(root).chmod(0o711)
        folder = DataFolder(Path(root) / "data")
        folder.create()
        yield folder


async def _start(name: str, command: Command, ready: Callable[[], Awaitable[bool]], folder: DataFolder) -> Child:
    child = Child(name, command, logs=folder.logs, run=folder.run)
    await child.start()
    async with asyncio.timeout(60):
        while not await ready():
            if child.pid is None:
                pytest.fail(f"{name} ended:\n{child.log.read_text()}")
            await asyncio.sleep(0.05)
    return child


@pytest.fixture(scope="session")
def postgres_server(_runner: asyncio.Runner, _servers_folder: DataFolder) -> Iterator[Postgres]:
    """The session's Postgres."""
    folder = _servers_folder
    with PortClaims() as claims:
        server = Postgres(
            cluster=folder.postgres,
            keys=folder.keys,
            log=folder.logs / "postgres.log",
            port=claims.claim_any(),
            settings=UNSAFE_BUT_QUICK,
        )
        _runner.run(server.prepare())
        child = _runner.run(_start("postgres", server.command(), server.ready, folder))
        try:
            _runner.run(server.ensure_database())
            yield server
        finally:
            _runner.run(child.stop())


@pytest.fixture(scope="session")
def postgres_url(postgres_server: Postgres) -> str:
    """Superuser URL of the session's Postgres (its `postgres` database)."""
    return postgres_server.superuser_url()


@pytest.fixture(scope="session")
def migrated_template(postgres_server: Postgres) -> str:
    """The name of a database with the current schema, to copy from; nothing may be connected to it."""
    migrate(postgres_server.url())
    return DATABASE


@pytest.fixture
async def empty_database(postgres_server: Postgres) -> AsyncIterator[str]:
    """URL of a fresh, empty database owned by the role in the URL."""
    async with fresh_database(postgres_server, "template1") as url:
        yield url


@pytest.fixture
async def database(postgres_server: Postgres, migrated_template: str) -> AsyncIterator[str]:
    """URL of a fresh database with the current schema, owned by the role in the URL."""
    async with fresh_database(postgres_server, migrated_template) as url:
        yield url


@pytest.fixture(scope="session")
def temporal_server(_runner: asyncio.Runner, _servers_folder: DataFolder) -> Iterator[str]:
    """Address (host:port) of the session's Temporal server: namespace `default`, time skipping allowed."""
    folder = _servers_folder
    with PortClaims() as claims:
        server = Temporal(
            folder=folder.temporal,
            port=claims.claim_any(),
            ui_port=None,
            dynamic_config=["frontend.WorkflowTimeSkippingEnabled=true"],
        )
        child = _runner.run(_start("temporal", server.command(), server.ready, folder))
        try:
            _runner.run(server.configure())
            yield server.address
        finally:
            _runner.run(child.stop())
