"""The peers on real sockets, each program started once a session, and raw servers that misbehave as a test wants."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack

import httpx
import pytest

from gateways.client import new_client
from tests import loopback
from tests.gateways.peers.pairs import Pair
from tests.gateways.peers.peer import Peer, Start, Urls
from tests.gateways.peers.sandbox import SandboxPeer

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Started = Callable[[type[Peer]], Urls]


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Gives the base URLs of a peer's program, which runs from its first use to the end of the session."""
    running: dict[Start, Urls] = {}
    with ExitStack() as stack:

        def start(peer: type[Peer]) -> Urls:
            if peer.start not in running:
                running[peer.start] = stack.enter_context(peer.start(tmp_path_factory.mktemp(peer.__name__)))
            return running[peer.start]

        yield start


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with new_client() as shared:
        yield shared


@pytest.fixture
async def outside() -> AsyncIterator[httpx.AsyncClient]:
    """What the tests themselves do at a peer goes through it."""
    async with loopback.plain_client() as own:
        yield own


@pytest.fixture
async def peer(pair: Pair, started: Started, outside: httpx.AsyncClient) -> AsyncIterator[Peer]:
    """The peer of the pair that the test is collected for (`pairs`)."""
    running = pair.peer(started(pair.peer), outside)
    yield running
    await running.clear_faults()


@pytest.fixture
async def sandbox(started: Started, outside: httpx.AsyncClient) -> AsyncIterator[SandboxPeer]:
    running = SandboxPeer(started(SandboxPeer), outside)
    yield running
    await running.clear_faults()


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[Handler], Awaitable[str]]]:
    """Starts a raw TCP server with a handler for each connection; gives its base URL."""
    async with AsyncExitStack() as stack:

        async def start(handler: Handler) -> str:
            async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                try:
                    await handler(reader, writer)
                except ConnectionError:
                    pass
                finally:
                    writer.close()

            server = await asyncio.start_server(handle, "127.0.0.1", 0)
            stack.callback(server.close)
            return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

        yield start
