"""`counterseal api` as a process of its own, on a socket: what a test in the same process cannot see."""

import asyncio
import base64
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ledger.data_keys import DataKeys
from ledger.database import connect
from ledger.keys import MasterKey
from ledger.principals import Principal, Principals
from runtime.stack.ports import PortClaims
from runtime.stack.postgres import Postgres
from tests.service import PATIENCE, SANDBOX_KEY, SandboxUrls, fresh_database

ROOT = Path(__file__).parents[2]
WEBHOOK_SECRET = "whsec_of_the_process"
TENANT = "acme"


@dataclass(frozen=True)
class ApiProcess:
    """A running API, its tokens by kind, and what it wrote to standard error."""

    port: int
    tokens: dict[str, str]
    log: Path
    environment: dict[str, str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)


async def _issue(database_url: str, master: MasterKey, tools: Sequence[str]) -> dict[str, str]:
    database = await connect(database_url)
    try:
        principals = Principals(database, DataKeys(master))
        await principals.add_user(TENANT, "ana", "Ana Example", "a long example password", ["finance"])
        _, service = await principals.issue("service", TENANT, "runtime")
        holder = await principals.authenticate(service)
        assert isinstance(holder, Principal)
        run = await principals.open_run(
            holder,
            agent_id="bot",
            actor_id="user",
            customer_id="cus_1",
            tools=tools,
            seconds=3600,
        )
        _, approver = await principals.issue("approver", TENANT, "ana")
        _, operator = await principals.issue("operator", TENANT, "sre")
        return {"service": service, "run": run.token, "approver": approver, "operator": operator}
    finally:
        await database.close()


@contextmanager
def api_process(
    runner: asyncio.Runner,
    server: Postgres,
    template: str,
    temporal: str,
    sandbox: SandboxUrls,
    folder: Path,
    *,
    tools: Sequence[str] = ("issue_refund", "lookup_orders"),
    **settings: str,
) -> Generator[ApiProcess]:
    """The process over a database of its own; `runner` is where the database is prepared. `tools` are its run's,
    `settings` more of the process's own."""
    fresh = fresh_database(server, template)
    database = runner.run(_entered(fresh))
    key = folder / "master.key"
    key.write_text(base64.b64encode(secrets.token_bytes(32)).decode())
    tokens = runner.run(_issue(database, MasterKey.from_file(key), tools))
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "COUNTERSEAL_DATABASE_URL": database,
        "COUNTERSEAL_MASTER_KEY_FILE": str(key),
        "COUNTERSEAL_EAGER_START": "true",
        "COUNTERSEAL_TENANT": TENANT,
        "COUNTERSEAL_TASK_QUEUE": f"tests-{secrets.token_hex(4)}",
        "COUNTERSEAL_SANDBOX_GATEWAY_URL": sandbox.gateway,
        "COUNTERSEAL_SANDBOX_GATEWAY_KEY": SANDBOX_KEY,
        "COUNTERSEAL_SANDBOX_WEBHOOK_SECRET": f"{WEBHOOK_SECRET},{secrets.token_hex(8)}",
        "COUNTERSEAL_STORE_URL": sandbox.store,
        "COUNTERSEAL_STORE_KEY": SANDBOX_KEY,
        "COUNTERSEAL_PRIVATE_NETWORKS": "payments,orders",
        "COUNTERSEAL_LOG_LEVEL": "DEBUG",
        "TEMPORAL_ADDRESS": temporal,
        "TEMPORAL_NAMESPACE": "default",
        "TEMPORAL_CONFIG_FILE": os.devnull,
        **{f"COUNTERSEAL_{name.upper()}": "1000000" for name in _BOUNDS},
        **settings,
    }
    try:
        with started(environment, tokens, folder) as running:
            yield running
    finally:
        runner.run(_left(fresh))


@contextmanager
def started(environment: dict[str, str], tokens: dict[str, str], folder: Path) -> Generator[ApiProcess]:
    """One process with these settings, on a port of its own."""
    with PortClaims() as claims:
        port, log = claims.claim_any(), folder / "stderr"
        with log.open("wb") as stderr:
            command = [sys.executable, "-m", "runtime.cli.main", "api"]
            own = {**environment, "COUNTERSEAL_API_PORT": str(port)}
            process = subprocess.Popen(command, cwd=folder, env=own, stderr=stderr)
        try:
            _until_it_answers(process, port, log)
            yield ApiProcess(port, tokens, log, environment)
        finally:
            process.terminate()
            process.wait(PATIENCE)


_BOUNDS = [
    f"{what}_per_{span}"
    for what in ("failed_authentications", "invalid_calls", "address_invalid_calls")
    for span in ("minute", "hour")
]


async def _entered(context: AbstractAsyncContextManager[str]) -> str:
    return await context.__aenter__()


async def _left(context: AbstractAsyncContextManager[str]) -> None:
    await context.__aexit__(None, None, None)


def _until_it_answers(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > give_up:
                pytest.fail(f"the API did not start:\n{log.read_text()}")
            time.sleep(0.05)
        else:
            return
