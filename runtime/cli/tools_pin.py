"""What `counterseal tools pin` and `tools diff --upstream` look at and print: what was reviewed against what is
advertised."""

import json
from collections.abc import Mapping
from pathlib import Path

import typer
from rich.text import Text

from gateways.upstreams import Definition
from runtime.cli.errors import CommandError
from runtime.cli.output import console, plain, table
from runtime.cli.tools_diff import rows_of
from runtime.cli.upstreams import as_advertised
from tools.catalog import Entry
from tools.comparing import Difference, changes
from tools.mcp import load
from tools.mcp.reviewed import read_reviewed, write_reviewed


def changed(entry: Entry, advertised: Mapping[str, Definition]) -> dict[str, list[Difference]]:
    """Of the upstream's tools that an entry calls those that are not what was pinned, each with how it differs from
    what was reviewed; nothing is said there where nobody kept that. Raises CommandError."""
    try:
        reviewed = read_reviewed(entry.manifest_file.parent)
    except ValueError as problem:
        raise CommandError(str(problem)) from None
    found: dict[str, list[Difference]] = {}
    for tool, pin in entry.pins.items():
        now = advertised.get(tool)
        if now is None:
            found[tool] = [Difference("missing", tool)]
        elif now.pin != pin:
            before = reviewed.get(tool)
            found[tool] = [] if before is None else [*changes(as_advertised(before), as_advertised(now))]
    return found


def show(entry: Entry, advertised: Mapping[str, Definition], found: Mapping[str, list[Difference]]) -> None:
    """A person reads this before they pin it: every word of the server's, with what a terminal would obey escaped."""
    terminal = console()
    for tool, differences in found.items():
        if differences:
            shown = table("Tool", "What", "Reviewed", "Advertised")
            for each in differences:
                for row in rows_of(each):
                    shown.add_row(*map(Text, row))
            terminal.print(shown)
        elif tool in advertised:
            terminal.print(Text(f"{tool} as {entry.upstream} advertises it, which nobody has reviewed:"))
            typer.echo(plain(json.dumps(advertised[tool].as_json(), indent=2, ensure_ascii=False)))


def pin(entry: Entry, advertised: Mapping[str, Definition]) -> list[Path]:
    """Write what is advertised now as what was reviewed: the files that were written. Raises CommandError."""
    folder = entry.manifest_file.parent
    file = folder / load.FILE
    definitions = {tool: advertised[tool] for tool in entry.pins if tool in advertised}
    text = file.read_text(encoding="utf-8")
    for tool, old in entry.pins.items():
        new = definitions[tool].pin if tool in definitions else None
        if new is None:
            raise CommandError(f"{entry.upstream} does not advertise {tool} in a form that can be pinned")
        text = load.repinned(text, tool, old, new)
    try:
        file.write_text(text, encoding="utf-8")
        write_reviewed(folder, definitions)
    except OSError as problem:
        raise CommandError(f"{folder} cannot be written: {problem.strerror}") from None
    return [file, folder / "reviewed.json"]
