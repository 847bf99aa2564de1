"""`counterseal report`: how gates do, and what became of refunds, from the ledger."""

import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ledger.bookings import DIMENSIONS, By
from ledger.gates import GateReport, Gates
from ledger.ledger import Ledger
from ledger.periods import Period, half_open, period, zone_named
from ledger.refunds import Books, RefundReport, Refunds
from runtime.cli import access_report, gate_report, reconciling, refund_books, refund_report
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


class Dimension(StrEnum):
    """What bookings are put together by."""

    REASON_CODE = "reason_code"
    TOOL = "tool"
    AGENT = "agent"
    APPROVER = "approver"
    RULE = "rule"
    CURRENCY = "currency"
    DAY = "day"
    MONTH = "month"


@app.command(
    epilog="Example: counterseal report refunds --since 2026-11-01 --until 2026-12-01 --zone Europe/Berlin --csv"
)
def refunds(
    since: Annotated[
        str | None,
        typer.Option(help="From when on: a day in --zone, or a time with its zone", show_default="30 days before"),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Until just before that: a day in --zone, or a time", show_default="the end of today"),
    ] = None,
    zone: Annotated[str, typer.Option(help="Whose days they are, as IANA names it")] = "UTC",
    by: Annotated[
        list[Dimension] | None,
        typer.Option(help=f"Put together by {', '.join(DIMENSIONS)}; several times for several at once"),
    ] = None,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV: a line per booking, or per group with --by")
    ] = False,
    reconcile: Annotated[
        bool,
        typer.Option("--reconcile", help="Name what differs from the payment gateway's own list; exit 1 if it does"),
    ] = False,
    tenant: Tenant = None,
    tools: ToolsPath = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say which refunds and reversals were booked, each on its own day, and what is sent and not known yet; and what
    became of the refunds that were asked for in the same time."""
    if as_csv and as_json:
        raise typer.BadParameter("one of --csv and --json")
    if reconcile and (as_csv or by):
        raise typer.BadParameter("--reconcile goes with --json alone")
    try:
        where = zone_named(zone)
        booked = half_open(since, until, datetime.now(UTC), where)
    except ValueError as problem:
        raise typer.BadParameter(str(problem), param_hint="--since, --until, --zone") from None
    refunding = [each.manifest.name for each in _catalog(tools).all() if each.manifest.operation == _REFUND]
    if reconcile:
        _reconcile(data, refunding, tenant, booked, as_json=as_json)
        return

    async def read(ledger: Ledger) -> tuple[Books, RefundReport]:
        reader = Refunds(ledger.system, ledger.keys)
        return await reader.books(tenant, booked, refunding), await reader.report(tenant, booked, refunding)

    books, asked = with_ledger(data, read)
    dimensions: list[By] = [each.value for each in by or []]
    if as_csv:
        sys.stdout.write(refund_books.as_csv(books, dimensions, where))
    elif as_json:
        print_json(
            {
                "since": booked.since,
                "until": booked.until,
                **refund_books.as_json(books, dimensions, where),
                "asked": refund_report.as_json(asked),
            }
        )
    else:
        refund_books.show(books, dimensions, where)
        refund_report.show(asked)


@app.command(epilog="Example: counterseal report access --tenant acme --json")
def access(
    tenant: Tenant = None,
    histories: Annotated[
        bool, typer.Option("--histories", help="Instead, whom payloads of Temporal's histories were shown to")
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say who was given what and when: tokens, accounts, passkeys, delegations; and which switches were turned and
    which policies decided."""
    read = access_report.read_shown if histories else access_report.read
    found = with_ledger(data, lambda ledger: read(ledger, tenant))
    if as_json:
        print_json(access_report.as_json(found))
    else:
        access_report.show(found)


def _reconcile(data: Path | None, tools: list[str], tenant: str | None, span: Period, *, as_json: bool) -> None:
    found = reconciling.reconciled(data, tools, tenant, span)
    if as_json:
        print_json(reconciling.as_json(found))
    else:
        reconciling.show(found)
    if found.differences:
        raise typer.Exit(1)


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
