"""`counterseal ledger export`."""

import asyncio
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ledger.exporting import Export, OtherLedger
from runtime.cli.connecting import DataOption, JsonOption, Place, find_place, open_database
from runtime.cli.errors import CommandError
from runtime.cli.output import print_json


def export(
    out: Annotated[
        Path, typer.Option(help="A folder of its own, new or with an export to go on with", file_okay=False)
    ],
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write out all that is needed to verify the ledger anywhere: events (encrypted as they are), seals, public keys.

    It goes on where an export into the same folder stopped. No key is needed, and none is in it.
    """
    with progress("Exporting") as done:
        written = asyncio.run(_export(find_place(data), out, done))
    if as_json:
        print_json({"folder": str(out), **written})
    else:
        typer.echo(
            f"{written['events']} sealed events in {written['seals']} seals, {written['unsealed']} not sealed yet"
        )


async def _export(place: Place, out: Path, done: "Done") -> dict[str, int]:
    async with open_database(place) as database:
        try:
            return await Export(database.system, out, done).write()
        except OtherLedger as problem:
            raise CommandError(str(problem)) from None
        except OSError as problem:
            raise CommandError(f"{out} cannot be written: {problem.strerror}") from None


class Done:
    """Shows how far a command is."""

    def __init__(self, shown: Progress, what: str) -> None:
        self._shown = shown
        self._task = shown.add_task(what, total=None)

    def __call__(self, done: int, total: int) -> None:
        self._shown.update(self._task, completed=done, total=total)


@contextmanager
def progress(what: str) -> Generator[Done]:
    """A bar on a terminal's standard error; nothing anywhere else."""
    errors = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns,
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
        redirect_stdout=sys.stdout.isatty(),  # else what is printed meanwhile would not be in the file
    ) as shown:
        yield Done(shown, what)
