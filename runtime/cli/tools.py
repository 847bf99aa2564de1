"""`counterseal tools`: what agents can be offered, and whether it holds together."""

import re
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from policy.load import DEFAULT_POLICY
from policy.model import Policy
from policy.problems import PolicyError
from runtime.cli.connecting import JsonOption
from runtime.cli.errors import CommandError
from runtime.cli.output import console, print_json, table
from runtime.policy import load_checked
from runtime.scaffold import scaffold
from tools.catalog import Catalog, CatalogError, Entry

TOOL_NAME = re.compile(r"[a-z][a-z0-9_]{2,62}")

app = typer.Typer(no_args_is_help=True, add_completion=False, help="The tools there are.")

ToolsPath = Annotated[
    Path | None, typer.Option("--tools", envvar="COUNTERSEAL_TOOLS_PATH", help="A folder of more tools")
]
PolicyPath = Annotated[
    Path, typer.Option(envvar="COUNTERSEAL_POLICY", help="File or folder of a policy", show_default="the built-in one")
]


@app.command(epilog="Example: counterseal tools inventory --json")
def inventory(policy: PolicyPath = DEFAULT_POLICY, tools: ToolsPath = None, as_json: JsonOption = False) -> None:
    """Print the matrix of tools: what each can do, and the policy's verdict where none of its rules applies."""
    catalog, loaded, problems = _load(tools, policy)
    if catalog is None or loaded is None:
        raise CommandError(f"{problems[0]} (counterseal tools check shows all problems)")
    rows = [_row(entry, loaded) for entry in catalog.all()]
    if as_json:
        print_json({"policy": loaded.version, "tools": [row._asdict() for row in rows]})
        return
    shown = table("Tool", "Version", "Risk", "Reversibility", "Capabilities", "Queue", "Published", "Otherwise")
    for row in rows:
        shown.add_row(*row.cells())
    shown.caption = f"Otherwise: the verdict of {loaded.version} where no rule of it applies."
    console().print(shown)


@app.command(epilog="Example: counterseal tools check --tools our_tools")
def check(policy: PolicyPath = DEFAULT_POLICY, tools: ToolsPath = None, as_json: JsonOption = False) -> None:
    """Load every manifest and the policy over them; exit 1 when something in them is wrong."""
    catalog, loaded, problems = _load(tools, policy)
    if as_json:
        version, count = loaded.version if loaded else None, len(catalog.all()) if catalog else 0
        print_json({"ok": not problems, "tools": count, "policy": version, "problems": problems})
    elif catalog is not None and loaded is not None:
        typer.echo(f"OK  {len(catalog.all())} tools, {len(catalog.published())} published, policy {loaded.version}")
    else:
        typer.echo("\n".join(problems))
    if problems:
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


class _Row(NamedTuple):
    name: str
    version: str
    risk: str
    reversibility: str
    capability_classes: tuple[str, ...]
    queue: str
    published: bool
    otherwise: str

    def cells(self) -> list[str]:
        capabilities, published = ", ".join(self.capability_classes), "yes" if self.published else "no"
        return [*self[:4], capabilities, self.queue, published, self.otherwise]


def _row(entry: Entry, policy: Policy) -> _Row:
    manifest = entry.manifest
    decided = policy.tool(manifest.name)
    return _Row(
        name=manifest.name,
        version=manifest.version,
        risk=manifest.risk,
        reversibility=manifest.reversibility,
        capability_classes=manifest.capability_classes,
        queue=manifest.queue,
        published=manifest.published,
        # What the policy does not name fails closed.
        otherwise=decided.otherwise if decided else "hold" if manifest.writes else "refuse",
    )
