"""`counterseal replay`: does today's workflow code still follow the histories there are?"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.text import Text
from temporalio.client import WorkflowHistory
from temporalio.service import RPCError

from ledger.keys import KeyMaterialError, MasterKey
from runtime.cli.connecting import DataOption, JsonOption, find_place
from runtime.cli.errors import CommandError
from runtime.cli.output import console, print_json
from runtime.cli.temporal import open_temporal, silence_sdk
from runtime.codec import data_converter
from runtime.replaying import BadHistoryError, Replayed, parse_history, replay
from runtime.stack.connection import data_folder

app = typer.Typer(add_completion=False)

CALLS = "WorkflowType = 'ToolCall'"
_EXAMPLE = "Example: counterseal replay --history tests/workflows/histories/*/*.json"


@app.command(epilog=_EXAMPLE)
def command(
    more: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", show_default=False)] = None,
    history: Annotated[
        list[Path] | None,
        typer.Option(help="A history as exported, encoded; further FILEs may follow", show_default="live histories"),
    ] = None,
    query: Annotated[str, typer.Option(help="Which live workflows, as a Temporal list filter")] = CALLS,
    limit: Annotated[int, typer.Option(min=1, help="How many live workflows at most, newest first")] = 1000,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replay recorded histories, or those of the running stack; exit 1 when one of them parts from today's code."""
    silence_sdk()
    files = [*(history or []), *(more or [])]
    histories = read_histories(files) if files else None
    replayed = asyncio.run(_replay(histories, query, limit, data, quiet=as_json))
    failed = [each for each in replayed if each.problem is not None]
    if as_json:
        print_json(
            {"histories": [{"workflow_id": r.workflow_id, "events": r.events, "problem": r.problem} for r in replayed]}
        )
    else:
        console().print(Text(f"{len(replayed)} histories replayed, {len(failed)} parted from today's code."))
    if failed:
        raise typer.Exit(1)


def read_histories(files: list[Path]) -> list[WorkflowHistory]:
    """Histories as Temporal's UI and command line export them. Raises CommandError."""
    histories: list[WorkflowHistory] = []
    for file in files:
        try:
            histories.append(parse_history(file.stem, file.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError):
            raise CommandError(f"{file} cannot be read") from None
        except BadHistoryError as problem:
            raise CommandError(f"{file} is {problem}") from None
    return histories


async def _replay(
    histories: list[WorkflowHistory] | None, query: str, limit: int, data: Path | None, *, quiet: bool
) -> list[Replayed]:
    master = master_of(data, running=histories is None)
    found = live_histories(master, query, limit, data) if histories is None else each(histories)
    replayed: list[Replayed] = []
    terminal = console()
    columns = (SpinnerColumn(), TextColumn("{task.completed} histories"))
    errors = Console(stderr=True)
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task("replay", total=None)
        async for one in replay(found, data_converter(master)):
            replayed.append(one)
            progress.advance(task)
            if not quiet:
                terminal.print(replayed_line(one))
    return replayed


def replayed_line(each: Replayed) -> Text:
    """One history, and where it parted."""
    if each.problem is None:
        return Text(f"ok      {each.workflow_id} ({each.events} events)")
    return Text(f"PARTED  {each.workflow_id} ({each.events} events): {each.problem}")


def master_of(data: Path | None, *, running: bool = False) -> MasterKey:
    """The key that the histories are encrypted with; recorded ones need nothing that runs."""
    named = os.environ.get("COUNTERSEAL_MASTER_KEY_FILE")
    if running and not named:
        return find_place(data).master()
    try:
        return MasterKey.from_file(Path(named) if named else data_folder(data).keys / "master.key")
    except KeyMaterialError as problem:
        raise CommandError(str(problem)) from None


async def each(histories: list[WorkflowHistory]) -> AsyncIterator[WorkflowHistory]:
    for history in histories:
        yield history


async def live_histories(
    master: MasterKey, query: str, limit: int, data: Path | None
) -> AsyncIterator[WorkflowHistory]:
    """The newest histories that Temporal has. Raises CommandError when it does not answer."""
    client = await open_temporal(master, data)
    try:
        async for history in client.list_workflows(query, limit=limit).map_histories():
            yield history
    except RPCError as problem:
        raise CommandError(f"Temporal did not answer the query ({problem.status.name.lower()})") from None
