"""The service as production runs it: processes of their own, settings from the environment, over the tests' servers."""

import asyncio
import base64
import os
import secrets
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from ledger.data_keys import DataKeys
from ledger.database import connect
from ledger.keys import MasterKey
from ledger.principals import Principals
from runtime.stack.ports import PortClaims
from runtime.stack.postgres import Postgres
from tests.e2e.running import RunningStack
from tests.service import PATIENCE, fresh_database, sandbox_process

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Program:
    """One started process; where it reports that it is ready, a file."""

    name: str
    process: subprocess.Popen[bytes]
    folder: Path
    api: str | None

    def until_ready(self) -> None:
        give_up = time.monotonic() + PATIENCE
        while not self._is_ready():
            if self.process.poll() is not None or time.monotonic() > give_up:
                pytest.fail(f"{self.name} did not start:\n{(self.folder / f'{self.name}.log').read_text()}")
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        if self.api is None:
            return (self.folder / f"{self.name}.ready").exists()
        try:
            return httpx.get(f"{self.api}/readyz", trust_env=False, verify=False).is_success
        except httpx.TransportError:
            return False


@dataclass(frozen=True)
class Ground:
    """A database, a sandbox and the settings of processes over them. `info` is as in a ready file."""

    folder: Path
    environment: Mapping[str, str]
    info: Mapping[str, Any]

    @contextmanager
    def program(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Generator[Program]:
        """`counterseal ARGUMENTS`, until the end of the context."""
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "runtime.cli.main", *arguments],
                cwd=self.folder,
                env={
                    **self.environment,
                    "COUNTERSEAL_READY_FILE": str(self.folder / f"{name}.ready"),
                    **(environment or {}),
                },
                stdout=log,
                stderr=log,
            )
        try:
            yield Program(name, process, self.folder, self.info["api"] if arguments[0] == "api" else None)
        finally:
            process.terminate()
            process.wait(PATIENCE)

    def stack(self, api: Program) -> RunningStack:
        return RunningStack(self.folder, api.process, dict(self.info))


@contextmanager
def ground(server: Postgres, template: str, temporal: str, folder: Path, **keys: str) -> Generator[Ground]:
    """`keys`: what the sandbox expects, see `sandbox_process`. The settings name no credential."""
    (folder / "master.key").write_text(base64.b64encode(secrets.token_bytes(32)).decode())
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner, ExitStack() as opened:
        prepared = _prepared(server, template, folder / "master.key")
        database, service, approver = runner.run(prepared.__aenter__())
        opened.callback(lambda: runner.run(prepared.__aexit__(None, None, None)))
        sandbox = opened.enter_context(sandbox_process(folder, **keys))
        port = opened.enter_context(PortClaims()).claim_any()
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "COUNTERSEAL_DATABASE_URL": database,
            "COUNTERSEAL_MASTER_KEY_FILE": str(folder / "master.key"),
            "COUNTERSEAL_API_PORT": str(port),
            "COUNTERSEAL_TASK_QUEUE": f"queues-{secrets.token_hex(4)}",
            "COUNTERSEAL_SANDBOX_GATEWAY_URL": sandbox.gateway,
            "COUNTERSEAL_STORE_URL": sandbox.store,
            "COUNTERSEAL_PRIVATE_NETWORKS": "payments,orders",
            "TEMPORAL_ADDRESS": temporal,
            "TEMPORAL_NAMESPACE": "default",
            "TEMPORAL_CONFIG_FILE": os.devnull,
        }
        info = {
            "api": f"http://127.0.0.1:{port}",
            "service_token": service,
            "approvers": [{"token": approver}],
            "sandbox": {"gateway": sandbox.gateway, "store": sandbox.store, "helpdesk": sandbox.helpdesk},
        }
        yield Ground(folder, environment, info)


@asynccontextmanager
async def _prepared(server: Postgres, template: str, key: Path) -> AsyncGenerator[tuple[str, str, str]]:
    """(a database, a service token, an approver's token)"""
    async with fresh_database(server, template) as url:
        database = await connect(url, maximum=2)
        try:
            principals = Principals(database, DataKeys(MasterKey.from_file(key)))
            _, service = await principals.issue("service", "default", "runtime")
            await principals.add_user("default", "ana", "Ana Example", "a long example password", ["finance"])
            _, approver = await principals.issue("approver", "default", "ana")
        finally:
            await database.close()
        yield url, service, approver
