"""`counterseal report`: how gates do, and what became of refunds, from the ledger."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ledger.gates import GateReport, Gates
from ledger.ledger import Ledger
from ledger.periods import Period, period
from ledger.refunds import RefundReport, Refunds
from runtime.cli import gate_report, refund_report
from runtime.cli.connecting import DataOption, JsonOption, with_ledger
from runtime.cli.errors import CommandError
from runtime.cli.output import print_json
from tools.catalog import Catalog, CatalogError

app = typer.Typer(no_args_is_help=True, add_completion=False, help="How gates do, and what became of refunds.")

_REFUND = "refund"
Since = Annotated[
    str | None, typer.Option(help="From when on: a day (UTC), or a time with its zone", show_default="30 days before")
]
Until = Annotated[
    str | None, typer.Option(help="Until when; a day is counted to its end (UTC)", show_default="the end of today")
]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's", show_default="everyone's")]
ToolsPath = Annotated[
    Path | None, typer.Option("--tools", envvar="COUNTERSEAL_TOOLS_PATH", help="A folder of more tools")
]


@app.command(epilog="Example: counterseal report approvals --since 2026-11-01 --until 2026-11-30")
def approvals(
    since: Since = None,
    until: Until = None,
    tool: Annotated[str | None, typer.Option(help="Only this tool's")] = None,
    tenant: Tenant = None,
    tools: ToolsPath = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the gates: what was asked of people by tool, rule and approver, and what became of it until now."""
    asked = _period(since, until)
    reads = [each.manifest.name for each in _catalog(tools).all() if not each.manifest.writes]

    async def read(ledger: Ledger) -> GateReport:
        return await Gates(ledger.system).report(tenant, asked, tool=tool, reads=reads)

    report = with_ledger(data, read)
    if as_json:
        print_json(gate_report.as_json(report))
    else:
        gate_report.show(report)


@app.command(epilog="Example: counterseal report refunds --since 2026-11-01 --until 2026-11-30 --json")
def refunds(
    since: Since = None,
    until: Until = None,
    tenant: Tenant = None,
    tools: ToolsPath = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add up the refunds that were asked for, each as it stands now, by currency, agent and rule."""
    asked = _period(since, until)
    refunding = [each.manifest.name for each in _catalog(tools).all() if each.manifest.operation == _REFUND]

    async def read(ledger: Ledger) -> RefundReport:
        return await Refunds(ledger.system, ledger.keys).report(tenant, asked, refunding)

    report = with_ledger(data, read)
    if as_json:
        print_json(refund_report.as_json(report))
    else:
        refund_report.show(report)


def _period(since: str | None, until: str | None) -> Period:
    try:
        return period(since, until, datetime.now(UTC))
    except ValueError as problem:
        raise typer.BadParameter(str(problem), param_hint="--since, --until") from None


def _catalog(tools: Path | None) -> Catalog:
    """The team's own tools count, too."""
    try:
        return Catalog.load(*([] if tools is None else [tools]))
    except CatalogError as error:
        raise CommandError("; ".join(error.problems)) from None
