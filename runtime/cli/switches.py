"""`counterseal switches`: what is off, turning a kill switch or the vault off, and on again."""

from pathlib import Path
from typing import Annotated

import typer

from api.reach import NotYoursError, reach_of, reaches
from ledger.ledger import Ledger
from ledger.switches import Covered, Reach
from runtime.cli.connecting import DataOption, JsonOption, whoami, with_ledger
from runtime.cli.errors import CommandError
from runtime.cli.output import console, instant, print_json, table
from schemas.switches import EVERYONE, Deadlines, Switch, SwitchOff, parse
from tools.catalog import Catalog, CatalogError

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Kill switches, and the lock of the vault.")

Name = Annotated[str, typer.Argument(help="all, tenant:NAME, tool:NAME, class:NAME, agent:ID, run:ID or vault")]
Reason = Annotated[str, typer.Option(help="Why; it is kept in the ledger", metavar="TEXT")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's calls; otherwise everyone's")]
ToolsPath = Annotated[
    Path | None, typer.Option("--tools", envvar="COUNTERSEAL_TOOLS_PATH", help="A folder of more tools")
]


@app.command(name="list", epilog="Example: counterseal switches list --json")
def list_(tenant: Tenant = None, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the switches that are off."""
    off = with_ledger(data, lambda ledger: ledger.switches.off(tenant))
    if as_json:
        print_json({"off": [each.model_dump(mode="json") for each in off]})
        return
    if not off:
        console().print("Nothing is off.")
        return
    shown = table("Switch", "For", "Off since", "By", "Deadlines", "Reason")
    for each in off:
        whom = "everyone" if each.tenant == EVERYONE else each.tenant
        shown.add_row(each.name, whom, instant(each.off_at), each.off_by, each.deadlines, each.reason)
    console().print(shown)


@app.command(epilog='Example: counterseal switches off class:money_movement --reason "gateway incident"')
def off(
    name: Name,
    reason: Reason,
    tenant: Tenant = None,
    pause_deadlines: Annotated[
        bool, typer.Option("--pause-deadlines", help="Parked calls keep the time they have left")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Only show what it would stop")] = False,
    tools: ToolsPath = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Turn a switch off. When this returns, no write begins any more that it covers."""
    switch, whose, why = _parsed(name), tenant or EVERYONE, _said(reason)
    reach = _reach(switch, whose, tools)
    deadlines: Deadlines = "pause" if pause_deadlines else "run"

    async def turn(ledger: Ledger) -> tuple[Covered, SwitchOff | None]:
        covered = await ledger.switches.covered(reach)
        if check:
            return covered, None
        made = await ledger.switches.turn_off(whose, str(switch), by=whoami(), reason=why, deadlines=deadlines)
        return covered, made

    covered, made = with_ledger(data, turn)
    stops = {"parked": covered.parked, "unsent": covered.unsent, "unknown": covered.unknown, "runs": covered.runs}
    if as_json:
        print_json({"switch": str(switch), "off": made.model_dump(mode="json") if made else None, "covers": stops})
        return
    verb = "would stop" if made is None else "is off, and stops"
    console().print(
        f"{switch} {verb} new calls of {covered.runs} open runs, {covered.parked} parked and {covered.unsent} decided"
        f" calls; {covered.unknown} outcomes go on being looked up, and nothing is sent again."
    )


@app.command(epilog='Example: counterseal switches on class:money_movement --reason "incident over"')
def on(name: Name, reason: Reason, tenant: Tenant = None, tools: ToolsPath = None, data: DataOption = None) -> None:
    """Turn a switch on again; exit 1 when it was not off."""
    switch, whose, why = _parsed(name), tenant or EVERYONE, _said(reason)
    _reach(switch, whose, tools)

    async def turn(ledger: Ledger) -> bool:
        return await ledger.switches.turn_on(whose, str(switch), reaches(_catalog(tools)), by=whoami(), reason=why)

    if not with_ledger(data, turn):
        raise CommandError(f"{switch} is not off")
    console().print(f"{switch} is on again.")


def _parsed(name: str) -> Switch:
    try:
        return parse(name)
    except ValueError as problem:
        raise typer.BadParameter(str(problem), param_hint="NAME") from None


def _reach(switch: Switch, tenant: str, tools: Path | None) -> Reach:
    try:
        return reach_of(switch, tenant, _catalog(tools))
    except NotYoursError:
        raise typer.BadParameter("a tenant's switch can only name that tenant", param_hint="--tenant") from None


def _said(reason: str) -> str:
    if not reason.strip():
        raise typer.BadParameter("say why", param_hint="--reason")
    return reason.strip()[:500]


def _catalog(tools: Path | None) -> Catalog:
    """The team's own tools are of a class, too."""
    try:
        return Catalog.load(*([] if tools is None else [tools]))
    except CatalogError as error:
        raise CommandError("; ".join(error.problems)) from None
