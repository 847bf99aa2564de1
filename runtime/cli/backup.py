"""`counterseal backup`: the ledger's database, and where it is asked for its master key."""

import asyncio
import shutil
from pathlib import Path
from typing import Annotated

import asyncpg
import typer

from ledger.database import UNAVAILABLE
from runtime.backups import BackupError, Manifest, back_up
from runtime.cli.connecting import DataOption, JsonOption, Place, find_place
from runtime.cli.errors import CommandError
from runtime.cli.output import print_json

app = typer.Typer(add_completion=False)


@app.command(epilog="Example: counterseal backup --out /backups/ledger/monday")
def backup(
    out: Annotated[Path, typer.Option(help="A folder that is not there yet", file_okay=False)],
    keys: Annotated[
        Path | None,
        typer.Option(help="Copy the master key's file there too, outside of the backup", dir_okay=False),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Back up the database of the ledger, as it is at one moment, while the service runs. Takes the rights of the
    tables' owner.

    What is encrypted stays so, and the master key is not in it: without the key no copy of the ledger can be read.
    """
    place = find_place(data)
    if keys is not None:
        _copy_keys(place, keys, out)
    manifest = asyncio.run(_back_up(place, out))
    if as_json:
        print_json({"folder": str(out), **manifest.model_dump()})
        return
    typer.echo(f"{manifest.events} events up to seal {manifest.seal} of {manifest.origin} are in {out}.")
    if keys is None:
        typer.echo("The master key is not in it: keep a copy of that elsewhere.")


async def _back_up(place: Place, out: Path) -> Manifest:
    try:
        return await back_up(place.database_url, out)
    except BackupError as problem:
        raise CommandError(str(problem)) from None
    except UNAVAILABLE:
        raise CommandError(f"the database {place.name} cannot be reached") from None
    except asyncpg.PostgresError:
        raise CommandError(f"the database {place.name} cannot be backed up with these credentials") from None


def _copy_keys(place: Place, keys: Path, out: Path) -> None:
    file, kms = place.key_file()
    if keys.exists():
        raise CommandError(f"{keys} is there already")
    if out.absolute() in keys.absolute().parents:
        raise CommandError("the key does not belong beside what it opens: name a file outside of the backup")
    try:
        keys.touch(mode=0o600)
        shutil.copyfile(file, keys)
    except OSError as problem:
        raise CommandError(f"the master key cannot be copied to {keys}: {problem.strerror}") from None
    if not kms:
        typer.echo(f"{keys} opens every event, not encrypted itself: take it offline, away from the backup.", err=True)
