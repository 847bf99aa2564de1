"""How commands print: tables for people, JSON for programs."""

import json
import sys
from datetime import UTC, datetime

import typer
from rich import box
from rich.console import Console
from rich.table import Table

# Wide enough for an id and its columns when nobody's terminal sets the width.
_PIPED_WIDTH = 240


def console() -> Console:
    """Standard output; a pipe gets lines that are not squeezed into a terminal's width."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)


def table(*columns: str, title: str | None = None) -> Table:
    """A plain table; its first column, the one to copy from, is never cut."""
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for n, column in enumerate(columns):
        made.add_column(column, no_wrap=n == 0, overflow="fold")
    return made


def print_json(value: object) -> None:
    """One JSON document; times as ISO 8601."""
    typer.echo(json.dumps(value, indent=2, default=_plain))


def instant(at: datetime | None) -> str:
    """A time in UTC to the second; empty for none."""
    return "" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def plain(text: str) -> str:
    """Text of others, with what a terminal would obey or draw as nothing shown as its escape."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode() for each in text
    )


def exact(at: datetime) -> str:
    """A time in UTC to the millisecond, for what follows quickly."""
    return at.astimezone(UTC).isoformat(" ", "milliseconds").replace("+00:00", "Z")


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    raise TypeError(type(value).__name__)
