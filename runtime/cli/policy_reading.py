"""Where `counterseal policy` reads policies from, and how it prints what is different between two."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from activities.policies import checked_stored, opened
from ledger.ledger import Ledger
from policy.in_force import PolicyUnusable
from policy.model import Policy
from policy.problems import PolicyError
from policy.table import Difference, Row
from runtime.cli.connecting import with_ledger
from runtime.cli.errors import CommandError
from runtime.policy import PUBLISHED, load_checked
from tools.catalog import Catalog, CatalogError

PolicyPath = Annotated[
    Path,
    typer.Argument(
        envvar="COUNTERSEAL_POLICY",
        help="File or folder of a policy, or `published`: the one in force",
        show_default="the built-in one",
    ),
]
ToolsPath = Annotated[
    Path | None, typer.Option("--tools", envvar="COUNTERSEAL_TOOLS_PATH", help="A folder of more tools")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON")]


def load_catalog(extra: Path | None) -> Catalog:
    """The tools there are. Raises CommandError."""
    try:
        return Catalog.load(*([] if extra is None else [extra]))
    except CatalogError as error:
        raise CommandError("; ".join(error.problems)) from None


def load(file: Path, catalog: Catalog, data: Path | None) -> Policy:
    """The policy of a file, a folder, or what is in force. Raises CommandError."""
    return _whole(lambda: read(file, catalog, data))


def load_version(version: str, catalog: Catalog, data: Path | None) -> Policy:
    """The policy that the ledger keeps under a version. Raises CommandError."""
    source = with_ledger(data, lambda ledger: ledger.policies.source(version))
    if source is None:
        raise CommandError(f"the ledger keeps no policy {version}")
    return _whole(lambda: checked_stored(source, version, catalog))


def _whole(read: Callable[[], Policy]) -> Policy:
    try:
        return read()
    except PolicyError as error:
        raise CommandError(f"{error.problems[0]} (counterseal policy check shows all problems)") from None


def read(file: Path, catalog: Catalog, data: Path | None) -> Policy:
    """The same. Raises PolicyError, and CommandError where what is in force cannot be used."""
    if file != PUBLISHED:
        return load_checked(file, catalog)

    async def newest(ledger: Ledger) -> Policy:
        found = await ledger.policies.in_force()
        if found is None:
            raise CommandError("no policy was ever published: counterseal policy publish FILE")
        try:
            return opened(found, catalog)
        except PolicyUnusable as problem:
            raise CommandError(f"what is in force cannot be used: {problem}") from None

    return with_ledger(data, newest)


def plain(difference: Difference) -> dict[str, object]:
    """A difference as plain values."""
    return {
        "tool": difference.row.tool,
        "rule": difference.row.rule,
        "before": None if difference.before is None else difference.before._asdict(),
        "after": None if difference.after is None else difference.after._asdict(),
    }


def print_differences(title: str, found: Iterable[Difference]) -> None:
    """As a table, or that there are none."""
    lines = list(found)
    if not lines:
        typer.echo(f"{title}: no difference")
        return
    table = Table(title=title, title_justify="left")
    table.add_column("Tool", no_wrap=True)
    for heading in ("Rule", "Before", "After"):
        table.add_column(heading, overflow="fold")
    for each in lines:
        before, after = (Text(_said(row)) for row in each)
        table.add_row(each.row.tool or "every tool", Text(each.row.rule), before, after)
    Console(highlight=False).print(table)


def _said(row: Row | None) -> str:
    return "–" if row is None else "\n".join(filter(None, (row.decision, row.when, row.because)))
