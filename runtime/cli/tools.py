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
from runtime.cli import tools_diff, tools_inventory, tools_pin
from runtime.cli.connecting import DataOption, JsonOption, with_ledger
from runtime.cli.errors import CommandError
from runtime.cli.output import plain, print_json
from runtime.cli.upstreams import UpstreamsFile, advertised_by
from runtime.policy import load_checked
from runtime.scaffold import scaffold
from runtime.scaffold.mcp import scaffold_of_mcp
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
    upstream: Annotated[
        str | None, typer.Option(help="An MCP server behind this service, by its name: what was reviewed of it")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="A tool that must be advertised; repeatable", show_default="all published; with --api none"),
    ] = None,
    tools: ToolsPath = None,
    upstreams: UpstreamsFile = None,
    as_json: JsonOption = False,
) -> None:
    """Compare what is registered with what a running server advertises: missing and extra tools, and each field that
    differs; exit 1 where one does. With --api these are the tools of the token's run, with --upstream those that were
    reviewed, and what else it advertises is named: it stays hidden."""
    catalog = _catalog(tools)
    if upstream is not None:
        if api is not None or mcp is not None or only:
            raise typer.BadParameter("goes without --api, --mcp and --only", param_hint="--upstream")
        _diff_upstream(catalog, upstream, upstreams, token_file, as_json=as_json)
        return
    report = tools_diff.ask(api, mcp, token_file, only or (), catalog)
    if as_json:
        print_json(tools_diff.as_json(report))
    else:
        tools_diff.show(report)
    if report.differences:
        raise typer.Exit(1)


def _diff_upstream(
    catalog: Catalog, upstream: str, file: Path | None, token_file: Path | None, *, as_json: bool
) -> None:
    advertised = advertised_by(upstream, file, token_file)
    entries = [entry for entry in catalog.all() if entry.upstream == upstream]
    found = {entry.manifest.name: tools_pin.changed(entry, advertised) for entry in entries}
    used = {tool for entry in entries for tool in entry.pins}
    hidden = sorted(advertised.keys() - used)
    differs = any(found.values())
    if as_json:
        changed = {name: sorted(each) for name, each in found.items() if each}
        print_json({"same": not differs, "upstream": upstream, "changed": changed, "hidden": hidden})
    else:
        for entry in entries:
            tools_pin.show(entry, advertised, found[entry.manifest.name])
        names = ", ".join(name for name, each in found.items() if each)
        typer.echo(f"Not what was reviewed: {names}" if names else "Everything is what was reviewed.")
        if hidden:
            typer.echo(plain(f"Hidden, since no tool calls them: {', '.join(hidden)}"))
    if differs:
        raise typer.Exit(1)


@app.command(epilog="Example: counterseal tools pin refund_shop_order --tools our_tools --upstreams upstreams.yaml")
def pin(
    name: Annotated[list[str], typer.Argument(help="Of the tools")],
    tools: ToolsPath = None,
    upstreams: UpstreamsFile = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the upstream's token", show_default=tools_diff.MCP_VARIABLE)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: it was read already")] = False,
) -> None:
    """Review what an MCP server advertises of the tools that these call: shows what changed, and once it is confirmed
    writes it into their folders as what was reviewed. Running processes take it up when they are started again."""
    catalog = _catalog(tools)
    for each in name:
        entry = catalog.get(each)
        if entry is None or entry.upstream is None:
            raise typer.BadParameter(f"{plain(each)} is no tool of an MCP server", param_hint="NAME")
        advertised = advertised_by(entry.upstream, upstreams, token_file)
        found = tools_pin.changed(entry, advertised)
        if not found:
            typer.echo(f"{each} is what was reviewed.")
            continue
        tools_pin.show(entry, advertised, found)
        if not yes and not typer.confirm(f"Pin {', '.join(found)} for {each} as it is advertised now?"):
            raise typer.Exit(1)
        typer.echo("\n".join(str(file) for file in tools_pin.pin(entry, advertised)))


@app.command(epilog="Example: counterseal tools new send_money --http --tools our_tools")
def new(
    name: Annotated[str, typer.Argument(help="Of the tool, e.g. send_money")],
    tools: Annotated[Path, typer.Option("--tools", envvar="COUNTERSEAL_TOOLS_PATH", help="The folder of your tools")],
    http: Annotated[bool, typer.Option("--http", help="What it exchanges stands in http.yaml, not in Python")] = False,
    mcp: Annotated[
        str | None,
        typer.Option(help="It calls a tool of an MCP server behind this service", metavar="UPSTREAM[:TOOL]"),
    ] = None,
    upstreams: UpstreamsFile = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the upstream's token", show_default=tools_diff.MCP_VARIABLE)
    ] = None,
) -> None:
    """Begin a tool: a folder with its manifest, its policy, and tests that are red until it is filled in."""
    if TOOL_NAME.fullmatch(name) is None:
        raise typer.BadParameter("small letters, digits and _, a letter first", param_hint="NAME")
    if http and mcp is not None:
        raise typer.BadParameter("a tool is one of both", param_hint="--http and --mcp")
    try:
        if mcp is None:
            made = scaffold(tools, name, declared=http)
        else:
            upstream, _, called = mcp.partition(":")
            definition = advertised_by(upstream, upstreams, token_file).get(called or name)
            if definition is None or definition.pin is None:
                raise CommandError(f"{upstream} advertises no tool {plain(called or name)}")
            made = scaffold_of_mcp(tools, name, upstream, definition)
    except FileExistsError:
        raise CommandError(f"{tools / name} is there already") from None
    except OSError as problem:
        raise CommandError(f"{tools / name} cannot be written: {problem.strerror}") from None
    typer.echo("\n".join(str(file) for file in made))


def _catalog(tools: Path | None) -> Catalog:
    """Raises CommandError."""
    try:
        return Catalog.load(*([] if tools is None else [tools]))
    except CatalogError as error:
        raise CommandError(f"{error.problems[0]} (counterseal tools check shows all problems)") from None


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
