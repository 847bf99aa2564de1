"""`counterseal policy`: what the policy says, and whether it holds together."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from policy.document import Breaker, Limit, RuleText, ToolText, format_duration
from policy.load import DEFAULT_POLICY
from policy.model import Policy
from policy.problems import PolicyError
from runtime.cli.errors import CommandError
from runtime.policy import load_checked
from schemas.codes import Code
from tools.catalog import Catalog, CatalogError

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Show or check a policy.")

PolicyPath = Annotated[
    Path,
    typer.Argument(envvar="COUNTERSEAL_POLICY", help="File or folder of a policy", show_default="the built-in one"),
]
ToolsPath = Annotated[
    Path | None, typer.Option("--tools", envvar="COUNTERSEAL_TOOLS_PATH", help="A folder of more tools")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON")]


def _catalog(extra: Path | None) -> Catalog:
    try:
        return Catalog.load(*([] if extra is None else [extra]))
    except CatalogError as error:
        raise CommandError("; ".join(error.problems)) from None


@app.command(epilog="Example: counterseal policy check policies/refunds.yaml --strict")
def check(
    file: PolicyPath = DEFAULT_POLICY,
    tools: ToolsPath = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 for warnings too")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a policy against the tools there are: names, types, rules that never decide, and rules that meet. Exit 1
    when something in it is wrong."""
    catalog = _catalog(tools)
    try:
        policy = load_checked(file, catalog)
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


@app.command(epilog="Example: counterseal policy show --json")
def show(file: PolicyPath = DEFAULT_POLICY, tools: ToolsPath = None, as_json: AsJson = False) -> None:
    """Show a policy as a table of decisions, in the order they are made."""
    try:
        policy = load_checked(file, _catalog(tools))
    except PolicyError as error:
        raise CommandError(f"{error.problems[0]} (counterseal policy check shows all problems)") from None
    if as_json:
        content = policy.document.model_dump(mode="json", exclude_defaults=True)
        typer.echo(json.dumps({"version": policy.version, **content}, indent=2))
        return
    Console(highlight=False).print(_table(policy))


class _Row(NamedTuple):
    rule: str
    decision: str
    when: str
    because: str


def _table(policy: Policy) -> Table:
    table = Table(title=policy.version, title_justify="left", caption=_caption(policy), caption_justify="left")
    table.add_column("Tool", no_wrap=True)
    for heading in ("Rule", "Decision", "When", "Because"):
        table.add_column(heading, overflow="fold")
    for name, tool in policy.document.tools.items():
        label = name
        for row in _rows(tool, policy):
            table.add_row(label, *(Text(cell) for cell in row))
            label = ""
        if numbers := _numbers(tool):
            table.add_row("", Text("where"), "", Text(numbers))
        table.add_section()
    return table


def _rows(tool: ToolText, policy: Policy) -> Iterator[_Row]:
    """In the order of evaluation."""
    yield from (_refusal(rule) for rule in tool.rules if rule.refuse is not None)
    if tool.breaker is not None:
        yield _breaker(tool.breaker)
    yield from (_limit(limit) for limit in tool.limits)
    yield from (_hold(rule, policy) for rule in tool.rules if rule.hold is not None)
    yield _Row("otherwise", tool.otherwise, "", "")


def _refusal(rule: RuleText) -> _Row:
    advice = "" if rule.use_tool is None else f"; use {rule.use_tool}"
    if rule.use_tool_when is not None:
        advice += f" when {rule.use_tool_when}"
    return _Row(rule.name, f"refuse {rule.refuse}", rule.when, rule.because + advice)


def _breaker(breaker: Breaker) -> _Row:
    when = f"more than {breaker.max} calls in {format_duration(breaker.window)}"
    decision = f"turn off {breaker.trips}, refuse {Code.CAPABILITY_DISABLED}"
    return _Row("breaker", decision, when, "until an operator turns it on")


def _limit(limit: Limit) -> _Row:
    what = "calls" if limit.of == "count" else "minor units"
    window = "" if limit.window is None else f" in {format_duration(limit.window)}"
    when = f"more than {limit.max} {what} per {limit.per}{window}"
    return _Row(limit.name, f"refuse {Code.RATE_LIMITED}", when, limit.because or "")


def _hold(rule: RuleText, policy: Policy) -> _Row:
    deadline = format_duration(rule.deadline or policy.deadline_seconds)
    people = "" if rule.people == 1 else f"{rule.people} people of "
    proof = {None: "", "reauthenticated": " who prove again who they are", "passkey": " who sign it with a passkey"}[
        rule.proof
    ]
    above = rule.escalates_to or policy.escalates_to
    then = "" if above in (None, rule.hold) else f", from half of that on for {above} too"
    return _Row(rule.name, f"hold for {people}{rule.hold}{proof}, {deadline}{then}", rule.when, rule.because)


def _numbers(tool: ToolText) -> str:
    lines = [f"thresholds.{name} = {value}" for name, value in tool.thresholds.items()]
    for name, total in tool.totals.items():
        window = "so far" if total.window is None else f"of the last {format_duration(total.window)}"
        unasked = ", without those that waited for a person" if total.unasked else ""
        lines.append(f"totals.{name} = {total.of} per {total.per} {window}{unasked}")
    return "\n".join(lines)


def _caption(policy: Policy) -> str:
    deadline = format_duration(policy.deadline_seconds)
    caption = (
        f"What cannot be decided is held for {policy.approvers}, {deadline}."
        f"\nAn approval lets a call run for {format_duration(policy.execute_within_seconds)}."
    )
    if policy.parked is None:
        return caption
    most = f"{policy.parked.per_agent} of an agent, {policy.parked.per_tenant} in all"
    return f"{caption}\nAt most so many calls wait for a person, and what would be one more is refused: {most}."
