"""Where a command finds Temporal."""

import os
from pathlib import Path

from temporalio.client import Client

from ledger.keys import MasterKey
from runtime.assembly import temporal_client
from runtime.cli.errors import CommandError
from runtime.stack.connection import find_stack


async def open_temporal(master: MasterKey, data: Path | None) -> Client:
    """Temporal of the running stack, or of the standard TEMPORAL_ variables. Raises CommandError."""
    if data is not None or not {"COUNTERSEAL_DATABASE_URL", "TEMPORAL_ADDRESS"} & os.environ.keys():
        # The client takes its address from the environment, as it does in every process of the service.
        os.environ["TEMPORAL_ADDRESS"] = find_stack(data).temporal
    try:
        return await temporal_client(master)
    except RuntimeError:
        raise CommandError("Temporal cannot be reached") from None
