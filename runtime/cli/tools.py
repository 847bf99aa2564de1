"""`counterseal tools`: what agents can be offered, and whether it holds together."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from api import inventory as matrix
from api.inventory import Line
from ledger.ledger import Ledger
from policy.load import DEFAULT_POLICY
from policy.model import Policy
from policy.problems import PolicyError
from runtime.cli import tools_diff, tools_inventory
from runtime.cli.connecting import DataOption, JsonOption, with_ledger
from runtime.cli.errors import CommandError
from runtime.cli.output import print_json
from runtime.policy import load_checked
from runtime.scaffold import scaffold
from runtime.stack.errors import StackError
from tools.catalog import Catalog, CatalogError
from tools.linting import lint

TOOL_NAME = re.compile(r"[a-z][a-z0-9_]{2,62}")

app = typer.Typer(no_args_is_help=True, add_completion=False, help="The tools there are.")

ToolsPath = Annotated[
    Path | None, typer.Option("--tools", envvar="COUNTERSEAL_TOOLS_PATH", help="A folder of more tools")
]
PolicyPath = Annotated[
    Path, typer.Option(envvar="COUNTERSEAL_POLICY", help="File or folder of a policy", show_default="the built-in one")
]


@app.command(epilog="Example: counterseal tools inventory --json")
def inventory(
    policy: PolicyPath = DEFAULT_POLICY,
    tools: ToolsPath = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's calls", show_default="everyone's")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the matrix of tools: what a model sees of each, where its code is, what it can reach and undo, what stands
    before it, and, where there is a ledger, how that did in the last 30 days."""
    catalog, loaded, problems = _load(tools, policy)
    if catalog is None or loaded is None:
        raise CommandError(f"{problems[0]} (counterseal tools check shows all problems)")

    async def measure(ledger: Ledger) -> list[Line]:
        return await matrix.measured(ledger, catalog, loaded, matrix.last_30_days(datetime.now(UTC)), tenant)

    without = None
    try:
        lines = with_ledger(data, measure)
    except (CommandError, StackError) as error:
        if data is not None or tenant is not None:
            raise
        without, lines = str(error), matrix.inventory(catalog, loaded)
    if as_json:
        rows = [matrix.as_json(line) for line in lines]
        print_json({"policy": loaded.version, "no_ledger": without, "tools": rows})
        return
    tools_inventory.show(lines, loaded.version)


@app.command(epilog="Example: counterseal tools check --tools our_tools")
def check(policy: PolicyPath = DEFAULT_POLICY, tools: ToolsPath = None, as_json: JsonOption = False) -> None:
    """Load every manifest and the policy over them, and look for what makes a tool hard to use right or easy to misuse;
    exit 1 when something is wrong."""
    catalog, loaded, problems = _load(tools, policy)
    problems += lint(catalog.all()) if catalog is not None else []
    if as_json:
        version, count = loaded.version if loaded else None, len(catalog.all()) if catalog else 0
        print_json({"ok": not problems, "tools": count, "policy": version, "problems": problems})
    elif catalog is not None and loaded is not None and not problems:
        typer.echo(f"OK  {len(catalog.all())} tools, {len(catalog.published())} published, policy {loaded.version}")
    else:
        typer.echo("\n".join(problems))
    if problems:
        raise typer.Exit(1)


@app.command(epilog="Example: counterseal tools diff --mcp https://tools.example/mcp --token-file mcp.token")
def diff(
    api: Annotated[str | None, typer.Option(help="URL of a running Counterseal")] = None,
    mcp: Annotated[str | None, typer.Option(help="URL of an MCP server (streamable HTTP)")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the run token (--api) or the bearer token (--mcp)",
            show_default=f"{tools_diff.RUN_VARIABLE} or {tools_diff.MCP_VARIABLE}",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="A tool that must be advertised; repeatable", show_default="all published; with --api none"),
    ] = None,
    tools: ToolsPath = None,
    as_json: JsonOption = False,
) -> None:
    """Compare what is registered with what a running server advertises: missing and extra tools, and each field that
    differs; exit 1 where one does. With --api these are the tools of the token's run."""
    try:
        catalog = Catalog.load(*([] if tools is None else [tools]))
    except CatalogError as error:
        raise CommandError(f"{error.problems[0]} (counterseal tools check shows all problems)") from None
    report = tools_diff.ask(api, mcp, token_file, only or (), catalog)
    if as_json:
        print_json(tools_diff.as_json(report))
    else:
        tools_diff.show(report)
    if report.differences:
        raise typer.Exit(1)


@app.command(epilog="Example: counterseal tools new send_money --http --tools our_tools")
def new(
    name: Annotated[str, typer.Argument(help="Of the tool, e.g. send_money")],
    tools: Annotated[Path, typer.Option("--tools", envvar="COUNTERSEAL_TOOLS_PATH", help="The folder of your tools")],
    http: Annotated[bool, typer.Option("--http", help="What it exchanges stands in http.yaml, not in Python")] = False,
) -> None:
    """Begin a tool: a folder with its manifest, its policy, and tests that are red until it is filled in."""
    if TOOL_NAME.fullmatch(name) is None:
        raise typer.BadParameter("small letters, digits and _, a letter first", param_hint="NAME")
    try:
        made = scaffold(tools, name, declared=http)
    except FileExistsError:
        raise CommandError(f"{tools / name} is there already") from None
    except OSError as problem:
        raise CommandError(f"{tools / name} cannot be written: {problem.strerror}") from None
    typer.echo("\n".join(str(file) for file in made))


def _load(tools: Path | None, policy: Path) -> tuple[Catalog | None, Policy | None, list[str]]:
    """(catalog, policy, problems); without a catalog the policy cannot be checked."""
    try:
        catalog = Catalog.load(*([] if tools is None else [tools]))
    except CatalogError as error:
        return None, None, error.problems
    try:
        return catalog, load_checked(policy, catalog), []
    except PolicyError as error:
        return catalog, None, [str(problem) for problem in error.problems]
