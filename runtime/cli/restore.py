"""`counterseal restore`: a backup into an empty database, verified."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import asyncpg
import typer

from ledger.database import UNAVAILABLE
from runtime.backups import BackupError, Manifest, restore
from runtime.cli.connecting import Place
from runtime.cli.errors import CommandError
from runtime.cli.ledger_verify import hold_to
from runtime.stack.child import Child
from runtime.stack.connection import data_folder
from runtime.stack.files import DataFolder
from runtime.stack.lock import exclusive
from runtime.stack.ports import PortClaims
from runtime.stack.postgres import Postgres

app = typer.Typer(add_completion=False)
_PATIENCE_SECONDS = 60.0


@app.command(
    name="restore",
    epilog="Example: counterseal restore /backups/ledger/monday --into postgresql://owner@db.example.com/counterseal",
)
def restore_backup(
    folder: Annotated[Path, typer.Argument(help="A backup", file_okay=False)],
    into: Annotated[str | None, typer.Option(help="URL of an empty database, as its owner")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Data folder of a stack that is stopped and has no database", file_okay=False)
    ] = None,
) -> None:
    """Restore a backup into an empty database, all of it or nothing, and verify the ledger there as `ledger verify`
    does, with its exit status.

    What was done after the backup is not in it: before anything starts on it, read docs/runbooks/database-down.md.
    """
    if (into is None) == (data is None):
        raise typer.BadParameter("say where to: --into URL or --data FOLDER")
    if into is not None:
        if not into.startswith("postgresql://"):
            raise typer.BadParameter("the database URL must begin with postgresql://")
        place = Place(into, None)
        hold_to(place, asyncio.run(_restored(folder, place)).checkpoint)
    elif data is not None:
        _into_stack(folder, data_folder(data))


async def _restored(folder: Path, place: Place) -> Manifest:
    try:
        manifest = await restore(folder, place.database_url)
    except BackupError as problem:
        raise CommandError(str(problem)) from None
    except UNAVAILABLE:
        raise CommandError(f"the database {place.name} cannot be reached") from None
    except asyncpg.PostgresError:
        raise CommandError(f"the database {place.name} cannot be used with these credentials") from None
    typer.echo(
        f"Restored {manifest.events} events up to seal {manifest.seal}, of {manifest.made_at:%Y-%m-%d %H:%M:%SZ}."
    )
    return manifest


def _into_stack(folder: Path, stack: DataFolder) -> None:
    """The server of a stopped stack, started for as long as it takes."""
    if (stack.postgres / "PG_VERSION").exists():
        raise CommandError(f"{stack.postgres} holds a database already: move it away first")
    stack.create()
    with asyncio.Runner() as runner, exclusive(stack), PortClaims() as claims:
        server = Postgres(
            cluster=stack.postgres, keys=stack.keys, log=stack.logs / "postgres.log", port=claims.claim_any()
        )
        running = _running(server, stack)
        place = runner.run(running.__aenter__())
        try:
            manifest = runner.run(_restored(folder, place))
            hold_to(place, manifest.checkpoint)
        finally:
            runner.run(running.__aexit__(None, None, None))


@asynccontextmanager
async def _running(server: Postgres, stack: DataFolder) -> AsyncGenerator[Place]:
    await server.prepare()
    child = Child("postgres", server.command(), logs=stack.logs, run=stack.run)
    await child.start()
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not await server.ready():  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await server.ensure_database()
        yield Place(server.url(), None)
    finally:
        await child.stop()
