"""What the embedded stack consists of: each child's command line, probe, preparation and needs."""

import base64
import secrets
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx

from ledger.migrate import is_current
from runtime.stack.child import Command, run_to_end
from runtime.stack.connection import Pids, SandboxUrls, StackInfo
from runtime.stack.credentials import Credentials
from runtime.stack.environment import process_environment
from runtime.stack.errors import StackError
from runtime.stack.files import DataFolder, read_or_create_secret
from runtime.stack.ports import HOST
from runtime.stack.postgres import Postgres
from runtime.stack.supervisor import Service
from runtime.stack.temporal import NAMESPACE, Temporal
from runtime.stack.ui import shown

PREFERRED_PORTS = {
    "api": 8080,
    "temporal": 7233,
    "temporal_ui": 8233,
    "temporal_ui_behind": 8234,
    "postgres": 54320,
    "sandbox_gateway": 8090,
    "sandbox_store": 8091,
    "sandbox_helpdesk": 8092,
    "metrics": 9464,
}
TASK_QUEUE = "counterseal"

# It is asked every few milliseconds, over plain HTTP: without this every look would load all authorities for TLS.
_NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no server at all."""

# Longer than a payment exchange may take, so that a worker finishes what it has begun.
_GRACEFUL_SECONDS = 30.0

Seed = Callable[[str, dict[str, Any], Path, Mapping[str, str]], Awaitable[None]]


@dataclass(frozen=True)
class Stack:
    """One embedded stack.

    `seed(database_url, credentials, master_key_file, system_keys)` makes the first principals in a migrated database,
    and puts the keys of the sandbox's systems into the vault. `caller` is the environment
    the stack was started in. `store` is a folder with `orders.jsonl` and `customers.jsonl` for the sandbox.
    """

    folder: DataFolder
    ports: Mapping[str, int]
    credentials: Credentials
    caller: Mapping[str, str]
    seed: Seed
    store: Path | None = None

    def services(self) -> list[Service]:
        """Postgres, Temporal and the sandbox side by side; API and worker when these are ready."""
        read_or_create_secret(self.folder.keys / "master.key", base64.b64encode(secrets.token_bytes(32)).decode())
        postgres, temporal = self.postgres, self.temporal
        base = ("postgres", "temporal", "sandbox")
        return [
            Service("postgres", postgres.command, postgres.ready, prepare=postgres.prepare, setup=self._fill_database),
            Service("temporal", temporal.command, temporal.ready, setup=temporal.configure),
            Service("sandbox", self._sandbox_command, self._ready_file("sandbox"), prepare=self._forget("sandbox")),
            Service("api", lambda: self._program("api"), self._api_ready, needs=base),
            Service(
                "worker",
                lambda: self._program(
                    "worker",
                    COUNTERSEAL_READY_FILE=str(self._ready_path("worker")),
                    COUNTERSEAL_METRICS_PORT=str(self.ports["metrics"]),
                ),
                self._ready_file("worker"),
                prepare=self._forget("worker"),
                needs=base,
            ),
        ]

    def info(self, pids: Mapping[str, int]) -> StackInfo:
        """What the ready file says. A child that is being replaced just now has pid 0."""
        return StackInfo(
            api=self._url("api"),
            temporal=self.temporal.address,
            temporal_ui=self._url("temporal_ui"),
            namespace=NAMESPACE,
            task_queue=TASK_QUEUE,
            # For people and tools on this machine: shows every tenant's rows, which without a setting nobody sees.
            database=f"{self.postgres.url()}?options=-c%20counterseal.tenant%3D*",
            sandbox=SandboxUrls(
                gateway=self._url("sandbox_gateway"),
                store=self._url("sandbox_store"),
                helpdesk=self._url("sandbox_helpdesk"),
            ),
            service_token=self.credentials.service_token,
            operator_token=self.credentials.operator_token,
            approvers=self.credentials.approvers,
            pids=Pids(
                postgres=pids.get("postgres", 0),
                temporal=pids.get("temporal", 0),
                api=pids.get("api", 0),
                workers=[pids["worker"]] if "worker" in pids else [],
                sandbox=pids.get("sandbox", 0),
            ),
        )

    @cached_property
    def postgres(self) -> Postgres:
        return Postgres(
            cluster=self.folder.postgres,
            keys=self.folder.keys,
            log=self.folder.logs / "postgres.log",
            port=self.ports["postgres"],
        )

    @cached_property
    def temporal(self) -> Temporal:
        return Temporal(
            folder=self.folder.temporal,
            port=self.ports["temporal"],
            ui_port=self.ports["temporal_ui_behind"],
            ui_codec=f"{self._url('api')}/codec",
        )

    def ui(self) -> AbstractAsyncContextManager[None]:
        """Shows Temporal's UI, in this process."""
        return shown(self.ports["temporal_ui"], self._url("temporal_ui_behind"), self._url("api"))

    @property
    def _master_key(self) -> Path:
        return Path(self.caller.get("COUNTERSEAL_MASTER_KEY_FILE") or self.folder.keys / "master.key")

    @cached_property
    def _sandbox_keys(self) -> dict[str, str]:
        return {
            name: read_or_create_secret(self.folder.keys / f"{name.lower()}", secrets.token_hex(24))
            for name in ("SANDBOX_GATEWAY_KEY", "SANDBOX_STORE_KEY", "SANDBOX_HELPDESK_KEY", "SANDBOX_WEBHOOK_SECRET")
        }

    def _url(self, port: str) -> str:
        return f"http://{HOST}:{self.ports[port]}"

    async def _fill_database(self) -> None:
        await self.postgres.ensure_database()
        log = self.folder.logs / "migrate.log"
        if not await is_current(self.postgres.url()) and await run_to_end(self._program("migrate"), log) != 0:
            raise StackError(f"the database could not be brought to the current schema, see {log}")
        keys = {
            "sandbox": self._sandbox_keys["SANDBOX_GATEWAY_KEY"],
            "store": self._sandbox_keys["SANDBOX_STORE_KEY"],
            "zendesk": self._sandbox_keys["SANDBOX_HELPDESK_KEY"],
        }
        await self.seed(self.postgres.service_url(), self.credentials.model_dump(), self._master_key, keys)

    def _program(self, command: str, **extra: str) -> Command:
        environment = process_environment(
            command,
            self.folder,
            caller=self.caller,
            database_url=self.postgres.url() if command == "migrate" else self.postgres.service_url(),
            ports=self.ports,
            webhook_secret=self._sandbox_keys["SANDBOX_WEBHOOK_SECRET"],
        )
        return Command(
            # -P: a folder named like one of our packages where the caller stands is not ours.
            argv=[sys.executable, "-P", "-m", "runtime.cli.main", command],
            env=environment | extra,
            cwd=Path.cwd(),
            stop_seconds=_GRACEFUL_SECONDS,
        )

    def _sandbox_command(self) -> Command:
        options: list[str | Path] = ["--data", self.folder.sandbox, "--ready-file", self._ready_path("sandbox")]
        options += ["--gateway-port", str(self.ports["sandbox_gateway"])]
        options += ["--store-port", str(self.ports["sandbox_store"])]
        options += ["--helpdesk-port", str(self.ports["sandbox_helpdesk"])]
        options += ["--webhook-url", f"{self._url('api')}/v1/webhooks/sandbox"]
        if self.store is not None:
            options += ["--store", self.store]
        return Command(
            argv=[sys.executable, "-P", "-m", "sandbox", *options],
            # The outside world knows its own keys and nothing of the service's.
            env={"PATH": self.caller.get("PATH", ""), "PYTHONUNBUFFERED": "1", **self._sandbox_keys},
            cwd=self.folder.sandbox,
        )

    def _ready_path(self, name: str) -> Path:
        return self.folder.run / f"{name}.ready"

    def _ready_file(self, name: str) -> Callable[[], Awaitable[bool]]:
        async def exists() -> bool:
            return self._ready_path(name).exists()

        return exists

    def _forget(self, name: str) -> Callable[[], Awaitable[None]]:
        async def remove() -> None:
            self._ready_path(name).unlink(missing_ok=True)

        return remove

    async def _api_ready(self) -> bool:
        try:
            async with httpx.AsyncClient(trust_env=False, verify=_NOBODY, timeout=2) as client:
                response = await client.get(f"{self._url('api')}/readyz")
        except httpx.HTTPError:
            return False
        return response.status_code == 200
