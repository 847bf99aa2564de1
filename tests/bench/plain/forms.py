"""Starts the plain forms: each its own Temporal server, one endpoint, and a worker."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx

from runtime.stack.child import Child, Command
from runtime.stack.ports import HOST, PortClaims
from runtime.stack.temporal import Temporal, program
from tests.bench.plain.service import Told

Form = Literal["as it comes", "as people write it", "fastest"]
FORMS: tuple[Form, ...] = ("as it comes", "as people write it", "fastest")


@dataclass(frozen=True)
class Plain:
    """A running form: where its endpoint is, and its processes (Postgres and the gateway are those of the product)."""

    form: Form
    url: str
    pids: Sequence[int]


@asynccontextmanager
async def running(form: Form, folder: Path, *, database: str, gateway: str, gateway_key: str) -> AsyncGenerator[Plain]:
    """One form until the block ends. Raises TimeoutError when it does not start."""
    async with AsyncExitStack() as stack:
        claims = stack.enter_context(PortClaims())
        port = claims.claim_any()
        folder.mkdir(parents=True)
        server = Temporal(folder=folder, port=port, ui_port=None)
        command = _as_it_comes(server) if form == "as it comes" else server.command()
        temporal = Child(f"temporal-{form.replace(' ', '-')}", command, logs=folder, run=folder)
        await temporal.start()
        stack.push_async_callback(temporal.stop)
        async with asyncio.timeout(60):
            while not await server.ready():
                await asyncio.sleep(0.1)
        endpoint = claims.claim_any()
        fastest = form == "fastest"
        told = [Told(server.address, database, gateway, gateway_key, endpoint, works=fastest, fastest=fastest)]
        if not fastest:
            told.append(Told(server.address, database, gateway, gateway_key, 0, works=True, fastest=False))
        assert temporal.pid is not None
        pids = [temporal.pid]
        for each in told:
            process = _start(each, folder)
            stack.callback(_stop, process)
            pids.append(process.pid)
        url = f"http://{HOST}:{endpoint}"
        async with asyncio.timeout(60), httpx.AsyncClient(trust_env=False) as client:
            while not await _answers(client, url):
                await asyncio.sleep(0.1)
        yield Plain(form, url, pids)


async def _answers(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(f"{url}/healthz")).is_success
    except httpx.TransportError:
        return False


def _start(told: Told, folder: Path) -> "subprocess.Popen[bytes]":
    with (folder / "service.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.plain.service"], stdin=subprocess.PIPE, stdout=log, stderr=log
        )
    assert process.stdin is not None
    process.stdin.write(told.text().encode() + b"\n")
    process.stdin.close()
    return process


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _as_it_comes(server: Temporal) -> Command:
    """https://docs.temporal.io/cli/server with a file, so that it keeps what it has; without the UI."""
    tuned = server.command()
    options = [
        "--ip",
        HOST,
        "--port",
        str(server.port),
        "--db-filename",
        str(server.folder / "temporal.db"),
        "--headless",
    ]
    return Command(argv=[program(), "server", "start-dev", *options], env=tuned.env, cwd=tuned.cwd)
