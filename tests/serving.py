"""Applications on a port of their own, in the process of the tests."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import uvicorn


class _Server(uvicorn.Server):
    """uvicorn's server that leaves the process's signals alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


@asynccontextmanager
async def served(app: Any, **options: Any) -> AsyncGenerator[str]:
    """An ASGI app on a port of its own; gives its URL. `options` are uvicorn's."""
    settings: dict[str, Any] = {"log_config": None, "access_log": False, "lifespan": "off", **options}
    config = uvicorn.Config(app, **settings)
    sock = socket.create_server(("127.0.0.1", 0), backlog=256)
    server = _Server(config)
    task = asyncio.create_task(server.serve([sock]))
    try:
        async with asyncio.timeout(60):
            while not server.started:
                if task.done():
                    pytest.fail("the application did not start")
                await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        sock.close()


@asynccontextmanager
async def in_one_task(context: AbstractAsyncContextManager[Any]) -> AsyncGenerator[None]:
    """Enters and leaves `context` in a task of its own: a fixture is torn down in another one than it was made in,
    which task groups do not allow."""
    entered, leave = asyncio.Event(), asyncio.Event()

    async def host() -> None:
        async with context:
            entered.set()
            await leave.wait()

    task = asyncio.create_task(host())
    await asyncio.wait([task, waiting := asyncio.create_task(entered.wait())], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not task.done():
        try:
            yield
        finally:
            leave.set()
    await task
