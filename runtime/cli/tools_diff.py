"""What `counterseal tools diff` asks, and how it prints what it found."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import typer
from rich.text import Text

from runtime.cli.advertised import of_api, origin_of, read_token
from runtime.cli.errors import CommandError
from runtime.cli.output import console, plain, table
from tools.catalog import Catalog
from tools.comparing import Advertised, Difference, Kind, compare

RUN_VARIABLE = "COUNTERSEAL_RUN_TOKEN"
MCP_VARIABLE = "COUNTERSEAL_MCP_TOKEN"

_SAYS: dict[Kind, str] = {
    "internal": "ADVERTISED ALTHOUGH IT IS INTERNAL",
    "extra": "advertised, not registered",
    "repeated": "advertised more than once",
    "changed": "changed",
    "missing": "not advertised",
}


@dataclass(frozen=True, slots=True)
class Report:
    """`not_judged`: published tools that were not advertised, where that may be right."""

    server: str
    protocol: Literal["api", "mcp"]
    advertised: int
    differences: list[Difference]
    not_judged: list[str]


def ask(api: str | None, mcp: str | None, token_file: Path | None, only: Sequence[str], catalog: Catalog) -> Report:
    """Raises BadParameter for what cannot be asked, and CommandError where there is no answer."""
    url = api if mcp is None else mcp
    if url is None or (api is not None and mcp is not None):
        raise typer.BadParameter("give either --api or --mcp, with a URL")
    try:
        origin = origin_of(url)
    except ValueError as problem:
        raise typer.BadParameter(str(problem), param_hint="--api" if mcp is None else "--mcp") from None
    if token_file is not None and not token_file.exists():
        raise typer.BadParameter("there is no such file", param_hint="--token-file")
    published = {entry.manifest.name for entry in catalog.published()}
    if unknown := sorted(set(only) - published):
        raise typer.BadParameter(f"{plain(unknown[0])} is no published tool", param_hint="--only")
    advertised = _of_run(url, token_file) if mcp is None else _of_mcp(url, token_file)
    names = {each.name for each in advertised}
    if mcp is None and not names and not only:
        raise CommandError(f"{origin} offers the run of this token no tools: there is nothing to compare")
    # A run has the tools that it was opened with, which nobody but the one who opened it knows.
    expected = list(only) if only or mcp is None else None
    return Report(
        server=origin,
        protocol="api" if mcp is None else "mcp",
        advertised=len(advertised),
        differences=compare(catalog, advertised, expected),
        not_judged=[] if expected is None else sorted(published - names - set(expected)),
    )


def _of_run(url: str, token_file: Path | None) -> list[Advertised]:
    token = read_token(token_file, RUN_VARIABLE)
    if token is None:
        raise typer.BadParameter(f"--api needs a run token, in {RUN_VARIABLE} or --token-file")
    return asyncio.run(of_api(url, token))


def _of_mcp(url: str, token_file: Path | None) -> list[Advertised]:
    # The SDK takes a second to import, which the other commands need not spend.
    from runtime.cli.advertised_mcp import of_mcp

    token = read_token(token_file, MCP_VARIABLE)
    return asyncio.run(of_mcp(url, token))


def as_json(report: Report) -> dict[str, object]:
    return {
        "same": not report.differences,
        "server": report.server,
        "protocol": report.protocol,
        "advertised": report.advertised,
        "not_judged": report.not_judged,
        "differences": [
            {
                "tool": each.tool,
                "kind": each.kind,
                "field": each.field,
                "places": [
                    {"path": place.path, "registered": place.registered, "advertised": place.advertised}
                    for place in each.places
                ],
                "more": each.more,
            }
            for each in report.differences
        ],
    }


def show(report: Report) -> None:
    """A line for each place of each difference, the worst first, and what was compared."""
    terminal = console()
    if report.differences:
        shown = table("Tool", "What", "Registered", "Advertised")
        for each in report.differences:
            for row in rows_of(each):
                shown.add_row(*(Text(cell, "bold red" if each.kind == "internal" else "") for cell in row))
        terminal.print(shown)
    for line in _summary(report):
        terminal.print(Text(_line(line)))


def rows_of(difference: Difference) -> list[tuple[str, str, str, str]]:
    """(tool, what, registered, advertised) of each line, on one line whatever is in it."""
    return [tuple(map(_line, row)) for row in _rows(difference)]  # pyright: ignore[reportReturnType]  # four of four


def _rows(difference: Difference) -> list[tuple[str, str, str, str]]:
    name = difference.tool
    if difference.kind != "changed":
        return [(name, _SAYS[difference.kind], "", "")]
    rows = [(name, place.path, place.registered or "–", place.advertised or "–") for place in difference.places]
    return rows + ([(name, f"{difference.field}: {difference.more} more", "", "")] if difference.more else [])


def _line(text: str) -> str:
    """On one line, whatever is in it."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


def _summary(report: Report) -> list[str]:
    worst = [each.tool for each in report.differences if each.kind == "internal"]
    lines = [f"Worst: {', '.join(worst)} must never be advertised."] if worst else []
    of = " to the run of this token" if report.protocol == "api" else ""
    result = _counted(len(report.differences), "difference") if report.differences else "as registered"
    lines.append(f"{report.server} advertises {_counted(report.advertised, 'tool')}{of}: {result}.")
    if report.protocol == "mcp":
        lines.append("Versions are not compared: MCP has no field for them.")
    if report.not_judged:
        why = "they are not of --only" if report.protocol == "mcp" else "the run may do without them (see --only)"
        lines.append(f"Not advertised, and not judged, since {why}: {', '.join(report.not_judged)}")
    return lines


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
