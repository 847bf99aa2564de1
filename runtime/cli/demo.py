"""`counterseal demo`: the embedded stack with a scripted agent at work on it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from runtime.cli.connecting import Place, find_place, open_ledger
from runtime.cli.errors import CommandError
from runtime.cli.up import show as show_addresses
from runtime.demo.agent import Played
from runtime.demo.client import ApiProblem
from runtime.demo.performance import performance
from runtime.demo.stack import with_stack
from runtime.demo.table import results
from runtime.stack.connection import StackInfo, data_folder

app = typer.Typer(add_completion=False)


@app.command(epilog="Example: counterseal demo --once")
def demo(
    once: Annotated[bool, typer.Option("--once", help="Decide what waits, check everything, then stop")] = False,
    data: Annotated[
        Path | None, typer.Option(help="Folder for all state", show_default="COUNTERSEAL_DATA, else .counterseal")
    ] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="The API's port; a free one if taken")] = None,
) -> None:
    """Start the embedded stack, play the demo agent on it, show what happened, and stay up until Ctrl-C.

    With --once, exit 0 only if every call ended as the script expects and the money moved exactly so.
    """
    folder = data_folder(data)
    stderr = Console(stderr=True, highlight=False)
    stderr.print(f"starting on {folder.root}", markup=False, soft_wrap=True)

    async def run() -> list[str] | None:
        return await with_stack(
            folder,
            lambda info: _perform(info, find_place(folder.root), once),
            report=lambda line: stderr.print(line, markup=False, soft_wrap=True),
            port=port,
            stay=lambda problems: not once,
        )

    try:
        problems = asyncio.run(run())
    except ApiProblem as problem:
        raise CommandError(str(problem)) from None
    if once and problems is None:
        raise CommandError("interrupted before the end")
    if problems:
        raise typer.Exit(1)


async def _perform(info: StackInfo, place: Place, once: bool) -> list[str]:
    """Play, and with `once` decide too; what is not as the script says, which is printed as well."""
    terminal = Console(highlight=False)
    if once:
        show_addresses(info, terminal)
    async with open_ledger(place) as ledger:
        with _Screen(terminal) as screen:
            async with performance(info, ledger, screen.show) as running:
                played = await running.play()
                if once:
                    played = await running.decide(played)
                problems = await running.differences(played)
    for line in problems:
        terminal.print(Text(f"✕ {line}"), soft_wrap=True)
    if not problems:
        terminal.print(Text(f"All {len(played)} calls ended as expected, and the gateway's record agrees."))
    if once:
        return problems
    if parked := sum(each.parked for each in played):
        person = info.approvers[0]
        terminal.print(
            Text(f"{parked} calls wait for a person: sign in at {info.api} as {person.username}, {person.password}")
        )
    terminal.print()
    show_addresses(info, terminal)
    return problems


class _Screen:
    """The growing table; where there is no terminal, it is printed once at the end."""

    def __init__(self, terminal: Console) -> None:
        self._terminal = terminal
        self._live = Live(console=terminal, refresh_per_second=8) if terminal.is_terminal else None
        self._table: Table | None = None

    def __enter__(self) -> "_Screen":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()
        elif self._table is not None:
            self._terminal.print(self._table)

    def show(self, played: Sequence[Played], doing: str) -> None:
        """Show these steps; `doing`, when there is any, is what happens now."""
        self._table = results(played)
        if self._live is not None:
            working = Group(self._table, Spinner("dots", Text(doing))) if doing else self._table
            self._live.update(working, refresh=True)
