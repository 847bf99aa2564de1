"""`counterseal policy backtest`: what another policy would have changed about the calls that were recorded."""

import gc
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from api.backtesting import Backtest, backtest
from ledger.ledger import Ledger
from ledger.periods import period
from policy.problems import PolicyError
from policy.tally import Change, Kind, Said, Side
from runtime.cli.connecting import DataOption, JsonOption, with_ledger
from runtime.cli.errors import CommandError
from runtime.cli.output import console, exact, instant, plain, table
from runtime.policy import load_checked
from schemas.money import Money
from tools.catalog import Catalog, CatalogError

_LEFT = {
    "older": "were recorded before all that counts for a decision was written down",
    "no_tool": "are of a tool that is no longer there",
    "not_by_policy": "were not decided by the policy: a switch, facts that could not be read, or the tool itself",
    "erased": "are of customers who were erased",
    "pruned": "are older than their details are kept",
    "broken": "do not open as what they are said to be",
}
_KINDS: dict[Kind, str] = {
    "held": "a person would be asked",
    "freed": "would run without a person",
    "refused": "would be refused",
    "otherwise": "the same by another rule, or with a person told or not",
}


def command(
    file: Annotated[Path, typer.Argument(help="File or folder of the policy to try")],
    since: Annotated[
        str | None,
        typer.Option(help="From when on: a day (UTC), or a time with its zone", show_default="30 days before"),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Until when; a day is counted to its end (UTC)", show_default="the end of today"),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's", show_default="everyone's")] = None,
    thorough: Annotated[
        bool,
        typer.Option("--thorough", help="Evaluate also what has to stay, because the policies say the same about it"),
    ] = False,
    summary: Annotated[bool, typer.Option("--summary", help="Print the sums alone")] = False,
    tools: Annotated[
        Path | None, typer.Option("--tools", envvar="COUNTERSEAL_TOOLS_PATH", help="A folder of more tools")
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide recorded calls again under another policy, and print what would change: call by call, and in sum."""
    try:
        asked = period(since, until, datetime.now(UTC))
    except ValueError as problem:
        raise typer.BadParameter(str(problem), param_hint="--since, --until") from None
    try:
        catalog = Catalog.load(*([] if tools is None else [tools]))
        candidate = load_checked(file, catalog)
    except CatalogError as error:
        raise CommandError("; ".join(error.problems)) from None
    except PolicyError as error:
        raise CommandError(f"{error.problems[0]} (counterseal policy check shows all problems)") from None
    shown = _Changes(as_json=as_json, silent=summary)

    async def play(ledger: Ledger) -> Backtest:
        return await backtest(ledger, catalog, candidate, asked, tenant=tenant, changed=shown.add, thorough=thorough)

    shown.begin()
    with uncollected():
        found = with_ledger(data, play)
    shown.end(found)


@contextmanager
def uncollected() -> Generator[None]:
    """Without the search for garbage in cycles: none is left behind here, and looking through all that is counted takes
    an eighth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Changes:
    """Prints changes as they are found: there may be more than memory holds."""

    def __init__(self, *, as_json: bool, silent: bool) -> None:
        self._as_json = as_json
        self._silent = silent
        self._first = True

    def begin(self) -> None:
        if self._as_json:
            typer.echo('{"changes": [', nl=False)

    def add(self, change: Change) -> None:
        if self._silent:
            return
        if self._as_json:
            typer.echo(("\n" if self._first else ",\n") + json.dumps(_change(change)), nl=False)
        else:
            typer.echo(_line(change))
        self._first = False

    def end(self, found: Backtest) -> None:
        if self._as_json:
            typer.echo('],\n"summary": ' + json.dumps(as_json(found), indent=2) + "}")
        else:
            show(found)


def _change(change: Change) -> dict[str, object]:
    return {
        "at": change.at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "request_id": change.request_id,
        "tool": change.tool,
        "kind": change.kind,
        "then": change.then._asdict(),
        "now": change.now._asdict(),
        "amount": change.amount,
        "currency": change.currency,
    }


def _line(change: Change) -> str:
    amount = "" if not change.amount or change.currency is None else f"  {_money(change.currency, change.amount)}"
    said = f"{_said(change.then)} -> {_said(change.now)}"
    return plain(f"{exact(change.at)}  {change.request_id}  {change.tool}  {said}{amount}")


def _said(said: Said) -> str:
    code = f" {said.code}" if said.code else ""
    return f"{said.verdict}{code} ({', '.join(said.rules) or said.rule})"


def _money(currency: str, amount: int) -> str:
    return str(Money(amount=amount, currency=currency))


def as_json(found: Backtest) -> dict[str, object]:
    """The sums as plain values; money in minor units by currency."""
    tally = found.tally
    return {
        "candidate": found.candidate,
        "since": instant(found.period.since),
        "until": instant(found.period.until),
        "calls": tally.calls,
        "changes": tally.changes,
        "kinds": {kind: tally.kinds[kind] for kind in _KINDS},
        "by_tool": {tool: dict(kinds) for tool, kinds in sorted(tally.by_tool.items())},
        "by_rule": [
            {"tool": tool, "then": [verdict, rule], "now": [now_verdict, now_rule], "calls": count}
            for (tool, verdict, rule, now_verdict, now_rule), count in tally.by_rule.most_common()
        ],
        "then": _side(found, tally.then),
        "now": _side(found, tally.now),
        "breaker_trips": tally.trips,
        "people": found.waits.people,
        "seconds_to_decision": found.waits.seconds,
        "hours": round(found.hours, 2),
        "not_replayed": _left(found),
        "decided_by": list(found.versions),
        "counted_anew_for": list(found.uncounted),
    }


def _side(found: Backtest, side: Side) -> dict[str, object]:
    approvals = side.asked.total()
    return {
        "verdicts": dict(side.verdicts),
        "money_without_a_person": {currency: amount for currency, amount in sorted(side.money.items()) if amount},
        "approvals": dict(side.asked),
        "approvals_per_hour": round(approvals / found.hours, 3),
        "approvals_per_hour_and_person": _per_person(found, approvals),
        "queue": {
            "mean": round(side.queue.seconds / (found.hours * 3600), 3),
            "most": side.queue.most,
        },
    }


def _per_person(found: Backtest, approvals: int) -> float | None:
    return round(approvals / found.hours / found.waits.people, 3) if found.waits.people else None


def _left(found: Backtest) -> dict[str, int]:
    unread = {"erased": found.unread.erased, "pruned": found.unread.pruned, "broken": found.unread.broken}
    return {why: count for why, count in {**found.tally.left, **unread}.items() if count}


def show(found: Backtest) -> None:
    """Print the sums for people."""
    tally, terminal = found.tally, console()
    said = f"{tally.calls} calls from {instant(found.period.since)} until {instant(found.period.until)}"
    terminal.print(Text(f"{said}, decided again by {found.candidate}: {tally.changes} differences"))
    for kind, words in _KINDS.items():
        if tally.kinds[kind]:
            terminal.print(Text(f"  {tally.kinds[kind]} {kind}: {words}"))
    if tally.by_rule:
        terminal.print(_by_rule(found))
    terminal.print(_sums(found))
    if tally.trips:
        terminal.print(
            Text(f"A breaker would have turned its switch off {tally.trips} times: what that stops is not in here.")
        )
    for why, count in _left(found).items():
        terminal.print(Text(f"{count} calls were left as they are: they {_LEFT[why]}."))
    if found.uncounted:
        terminal.print(Text(f"What {', '.join(found.uncounted)} counted is not known: it was counted anew."))


def _by_rule(found: Backtest) -> Table:
    shown = table("Tool", "Then", "Now", "Calls")
    for (tool, verdict, rule, now_verdict, now_rule), count in found.tally.by_rule.most_common():
        shown.add_row(plain(tool), f"{verdict} ({rule})", f"{now_verdict} ({now_rule})", str(count))
    return shown


def _sums(found: Backtest) -> Table:
    sides = (found.tally.then, found.tally.now)
    shown = table("", "Then", "Now")
    for verdict in ("free", "notify", "hold", "refuse"):
        shown.add_row(verdict, *(str(side.verdicts[verdict]) for side in sides))
    for currency in sorted({currency for side in sides for currency in side.money}):
        shown.add_row("moved without a person", *(_money(currency, side.money[currency]) for side in sides))
    shown.add_row("approvals an hour", *(f"{side.asked.total() / found.hours:.2f}" for side in sides))
    each = (_per_person(found, side.asked.total()) for side in sides)
    shown.add_row("  for each of the people", *("" if rate is None else f"{rate:.2f}" for rate in each))
    means = (f"{side.queue.seconds / found.hours / 3600:.2f}" for side in sides)
    shown.add_row("waiting, on average", *means)
    shown.add_row("waiting, at most", *(str(side.queue.most) for side in sides))
    shown.caption = _caption(found.waits.seconds)
    return shown


def _caption(seconds: Mapping[str, float]) -> str:
    overall = seconds.get("")
    if overall is None:
        return "Nobody decided anything in that time, so what is newly held waits for nothing in these figures."
    return (
        "What was held then waits as long as it did; what is newly held, as long as people took for that tool in the"
        f" median ({overall / 60:.1f} min over all)."
    )
