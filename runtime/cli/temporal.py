"""Where a command finds Temporal."""

import os
from contextlib import suppress
from pathlib import Path

from temporalio.client import Client
from temporalio.runtime import Runtime, TelemetryConfig

from ledger.keys import MasterKey
from runtime.assembly import temporal_client
from runtime.cli.errors import CommandError
from runtime.stack.connection import find_stack


def silence_sdk() -> None:
    """The SDK's core writes its log to standard output, where a command's own words belong."""
    with suppress(RuntimeError):  # there is one already
        Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))


async def open_temporal(master: MasterKey | None, data: Path | None) -> Client:
    """Temporal of the running stack, or of the standard TEMPORAL_ variables. Raises CommandError."""
    silence_sdk()
    if data is not None or not {"COUNTERSEAL_DATABASE_URL", "TEMPORAL_ADDRESS"} & os.environ.keys():
        # The client takes its address from the environment, as it does in every process of the service.
        os.environ["TEMPORAL_ADDRESS"] = find_stack(data).temporal
    try:
        return await temporal_client(master)
    except RuntimeError:
        raise CommandError("Temporal cannot be reached") from None
