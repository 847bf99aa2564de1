"""`counterseal play`: recorded agent calls against the running service, answer by answer."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from runtime.cli.connecting import JsonOption
from runtime.cli.errors import CommandError
from runtime.cli.output import console, print_json, table
from runtime.cli.playing import Result, differing, play, summary
from runtime.cli.runs_file import Line, read_runs
from runtime.cli.service import ApiOption, ServiceTokenOption, StackOption, find_service
from runtime.demo.client import AgentApi, ApiProblem, agent_client

app = typer.Typer(add_completion=False)


@app.command(name="play", epilog="Example: counterseal play runs.jsonl --concurrency 4")
def play_file(
    file: Annotated[Path, typer.Argument(help="One run a line: customer_id, calls, and what each must answer")],
    data: StackOption = None,
    api: ApiOption = None,
    service_token: ServiceTokenOption = None,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Lines at a time")] = 1,
    wait_seconds: Annotated[int, typer.Option(min=0, max=60, help="How long a call may take to settle or park")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Play recorded calls and compare status and code with what the file expects; exit 1 when any differs."""
    url, token = find_service(data, api, service_token)
    lines = read_runs(file)
    try:
        results = asyncio.run(_play(url, token, lines, concurrency, wait_seconds))
    except ApiProblem as problem:
        raise CommandError(str(problem)) from None
    if as_json:
        print_json(_as_json(file, lines, results))
    else:
        _print(results, console())
    if differing(results):
        raise typer.Exit(1)


async def _play(url: str, token: str, lines: Sequence[Line], concurrency: int, wait_seconds: int) -> list[Result]:
    columns = TextColumn("playing"), BarColumn(), MofNCompleteColumn(), TextColumn("calls"), TimeElapsedColumn()
    terminal = Console(stderr=True)
    async with agent_client(url) as http:
        with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
            task = progress.add_task("calls", total=sum(len(line.run.calls) for line in lines))
            return await play(
                AgentApi(http, token),
                lines,
                concurrency=concurrency,
                wait_seconds=wait_seconds,
                played=lambda calls: progress.advance(task, calls),
            )


def _print(results: Sequence[Result], terminal: Console) -> None:
    shown = table("Tool", "Status", "Code", "Expected", "Got")
    for row in summary(results):
        got = Text(str(row.got), "" if row.expected == row.got else "bold red")
        shown.add_row(row.tool, row.status, row.code, str(row.expected), got)
    terminal.print(shown)
    differences = differing(results)
    if differences:
        listed = table("Line", "Call", "Expected", "Got", "Message")
        for each in differences:
            expected, got = (f"{said.status} {said.code}" for said in (each.expected, each.got))
            listed.add_row(str(each.line), f"{each.call} {each.tool}", expected, got, Text(each.message))
        terminal.print(listed)
    terminal.print(f"{len(results)} calls, {len(differences)} answered something else than expected.")


def _as_json(file: Path, lines: Sequence[Line], results: Sequence[Result]) -> dict[str, object]:
    return {
        "file": str(file),
        "runs": len(lines),
        "calls": len(results),
        "summary": [row._asdict() for row in summary(results)],
        "differences": [
            {
                "line": each.line,
                "call": each.call,
                "tool": each.tool,
                "expected": each.expected._asdict(),
                "got": each.got._asdict(),
                "message": each.message,
                "request_id": each.request_id,
            }
            for each in differing(results)
        ],
    }
