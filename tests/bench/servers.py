"""Postgres for measurements: as it is in production, on this machine's disk, with every commit flushed."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from ledger.migrate import migrate
from runtime.stack.child import Child
from runtime.stack.files import DataFolder
from runtime.stack.ports import PortClaims
from runtime.stack.postgres import Postgres


@asynccontextmanager
async def migrated_database() -> AsyncGenerator[str]:
    """The URL of a database with the current schema, in a server of its own."""
    with tempfile.TemporaryDirectory(prefix="counterseal-bench-") as root, PortClaims() as claims:
        # Postgres may run as another user, who has to pass.
        Path(root).chmod(0o711)
        folder = DataFolder(Path(root) / "data")
        folder.create()
        port = claims.claim_any()
        server = Postgres(
            cluster=folder.postgres, keys=folder.keys, log=folder.logs / "postgres.log", port=port, settings={}
        )
        await server.prepare()
        child = Child("postgres", server.command(), logs=folder.logs, run=folder.run)
        await child.start()
        try:
            async with asyncio.timeout(60):
                while not await server.ready():
                    await asyncio.sleep(0.05)
            await server.ensure_database()
            # The migrations run an event loop of their own.
            await asyncio.to_thread(migrate, server.url())
            yield server.url()
        finally:
            await child.stop()
