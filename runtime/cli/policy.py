"""`counterseal policy`: what the policy says, whether it holds together, and what a change of it would change."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from policy.load import DEFAULT_POLICY
from policy.model import Policy
from policy.problems import PolicyError
from policy.table import Row, across, decisions_of, differences, for_all, numbers_of
from runtime.cli import policy_backtest, policy_changes
from runtime.cli.connecting import DataOption
from runtime.cli.policy_reading import (
    AsJson,
    PolicyPath,
    ToolsPath,
    load,
    load_catalog,
    load_version,
    plain,
    print_differences,
    read,
)
from runtime.cli.policy_shadow import shadow
from runtime.policy import PUBLISHED

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Show, check, try out or change a policy.")


@app.command(epilog="Example: counterseal policy check policies/refunds.yaml --strict")
def check(
    file: PolicyPath = DEFAULT_POLICY,
    tools: ToolsPath = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 for warnings too")] = False,
    data: DataOption = None,
    as_json: AsJson = False,
) -> None:
    """Check a policy against the tools there are: names, types, rules that never decide, and rules that meet. Exit 1
    when something in it is wrong."""
    catalog = load_catalog(tools)
    try:
        policy = read(file, catalog, data)
    except PolicyError as error:
        if as_json:
            typer.echo(json.dumps({"ok": False, "problems": [problem._asdict() for problem in error.problems]}))
        else:
            typer.echo("\n".join(str(problem) for problem in error.problems))
        raise typer.Exit(1) from None
    refused = strict and bool(policy.warnings)
    unnamed = [entry.manifest.name for entry in catalog.all() if policy.tool(entry.manifest.name) is None]
    if as_json:
        warnings = [warning._asdict() for warning in policy.warnings]
        answer = {"version": policy.version, "warnings": warnings, "tools_without_policy": unnamed}
        typer.echo(json.dumps({"ok": not refused, **answer}))
    else:
        for warning in policy.warnings:
            typer.echo(f"Warning  {warning}")
        if not refused:
            typer.echo(f"OK  {policy.version}")
        if unnamed:
            typer.echo(f"Not named, so reads are refused and writes held for {policy.approvers}: {', '.join(unnamed)}")
    if refused:
        raise typer.Exit(1)


@app.command(epilog="Example: counterseal policy show --version default@3f1c0a9be21d")
def show(
    file: PolicyPath = DEFAULT_POLICY,
    tools: ToolsPath = None,
    version: Annotated[
        str | None, typer.Option(help="One that a decision names, as the ledger keeps it", metavar="NAME@DIGEST")
    ] = None,
    data: DataOption = None,
    as_json: AsJson = False,
) -> None:
    """Show a policy as a table of decisions, in the order they are made."""
    catalog = load_catalog(tools)
    policy = load(file, catalog, data) if version is None else load_version(version, catalog, data)
    if as_json:
        content = policy.document.model_dump(mode="json", exclude_defaults=True)
        typer.echo(json.dumps({"version": policy.version, **content}, indent=2))
        return
    Console(highlight=False).print(_table(policy))


@app.command(epilog="Example: counterseal policy diff policies/refunds.yaml --to published")
def diff(
    file: PolicyPath = DEFAULT_POLICY,
    to: Annotated[
        Path, typer.Option("--to", help="What it is compared with: a file, a folder, or `published`")
    ] = PUBLISHED,
    tools: ToolsPath = None,
    data: DataOption = None,
    as_json: AsJson = False,
) -> None:
    """Show what a policy would change, tool by tool and rule by rule. Exit 1 when it changes something."""
    catalog = load_catalog(tools)
    after, before = load(file, catalog, data), load(to, catalog, data)
    found = differences(before.document, after.document)
    if as_json:
        answer = {"before": before.version, "after": after.version, "differences": [plain(each) for each in found]}
        typer.echo(json.dumps(answer, indent=2))
    else:
        print_differences(f"{before.version} → {after.version}", found)
    if found:
        raise typer.Exit(1)


app.command("backtest", epilog="Example: counterseal policy backtest candidate.yaml --since 2026-11-01")(
    policy_backtest.command
)


def _table(policy: Policy) -> Table:
    table = Table(title=policy.version, title_justify="left", caption=_caption(policy), caption_justify="left")
    table.add_column("Tool", no_wrap=True)
    for heading in ("Rule", "Decision", "When", "Because"):
        table.add_column(heading, overflow="fold")
    defaults = policy.document.defaults
    for kind, text in policy.document.across.items():
        _add(table, across(kind, text, defaults), numbers_of(kind, text))
    for name, tool in policy.document.tools.items():
        _add(table, decisions_of(name, tool, defaults), numbers_of(name, tool))
    return table


def _add(table: Table, rows: Iterable[Row], numbers: Iterable[Row]) -> None:
    """What is decided about a tool, or about all of a kind."""
    label = True
    for row in rows:
        table.add_row(row.tool if label else "", *(Text(cell) for cell in row[1:]))
        label = False
    if read := "\n".join(_number(row) for row in numbers):
        table.add_row("", Text("where"), "", Text(read))
    table.add_section()


def _number(row: Row) -> str:
    return f"{row.rule} = {row.decision}"


def _caption(policy: Policy) -> str:
    return "\n".join(_sentences(for_all(policy.document.defaults)))


def _sentences(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        yield f"{row.rule[0].upper()}{row.rule[1:]}: {row.decision}."


app.command(epilog="Example: counterseal policy shadow --since 2026-11-01")(shadow)
policy_changes.register(app)
