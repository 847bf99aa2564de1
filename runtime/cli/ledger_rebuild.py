"""`counterseal ledger rebuild`: the projections, as the events make them."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated

import typer

from ledger.ledger import Ledger
from ledger.rebuilding import Compared, Kept
from runtime.cli.connecting import DataOption, JsonOption, with_ledger
from runtime.cli.ledger_export import progress
from runtime.cli.output import print_json

_NAMED = 1_000
"""As many calls are named in JSON; the figures count all of them."""
_KEPT: dict[Kept, str] = {
    "erased": "of customers who were erased",
    "pruned": "whose events were pruned",
    "older": "from before events said everything",
}


@dataclass
class _Figures:
    check: bool
    calls: int = 0
    differing: int = 0
    mended: int = 0
    kept: Counter[Kept] = field(default_factory=Counter[Kept])
    broken: int = 0
    sums: int = 0
    """How many sums of what calls take are not what those come to, or were not until they were mended."""
    named: list[dict[str, object]] = field(default_factory=list[dict[str, object]])

    @property
    def holds(self) -> bool:
        """Whether the projections are as they should be now."""
        return self.broken == 0 and self.differing == self.mended and (self.sums == 0 or not self.check)

    def add(self, call: Compared) -> list[str]:
        """Count a call; what is said of it."""
        self.calls += 1
        self.mended += call.mended
        if call.kept is not None:
            self.kept[call.kept] += 1
        if call.broken is not None:
            self.broken += 1
            self._name({"request_id": call.request_id, "broken": call.broken})
            return [f"{call.request_id}: {call.broken}"]
        self.differing += bool(call.differences)
        for each in call.differences:
            row = "missing" if each.missing else "not of any event" if each.column is None else None
            self._name({"request_id": each.request_id, "table": each.table, "column": each.column, "row": row})
        return [str(each) for each in call.differences]

    def _name(self, found: dict[str, object]) -> None:
        if len(self.named) < _NAMED:
            self.named.append(found)

    def as_json(self) -> dict[str, object]:
        return {
            "holds": self.holds,
            "check": self.check,
            "calls": self.calls,
            "differing": self.differing,
            "mended": self.mended,
            "broken": self.broken,
            "sums": self.sums,
            "kept": {reason: self.kept[reason] for reason in _KEPT},
            "found": self.named,
        }

    def summary(self) -> str:
        left = "".join(f", {self.kept[each]} {why} left as they are" for each, why in _KEPT.items() if self.kept[each])
        broken = f", {self.broken} that cannot be rebuilt" if self.broken else ""
        said = f"{self.mended} of {self.differing} differing mended" if not self.check else f"{self.differing} differ"
        sums = f", {self.sums} sums of what calls take {'differ' if self.check else 'mended'}" if self.sums else ""
        return f"{self.calls} calls: {said}{broken}{left}{sums}"


def rebuild(
    check: Annotated[bool, typer.Option("--check", help="Only compare: name every difference, change nothing")] = False,
    trust_events: Annotated[
        bool,
        typer.Option(
            "--trust-events",
            help="Also where a row knows of events that are not there: once `ledger verify` found none missing",
        ),
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the projections (calls, approvals, decisions, looks, what calls take) what the events say, or with --check
    say where they are not; exit 1 where something differs and was not mended.

    The service may run meanwhile; the command takes the rights of the tables' owner, as `counterseal migrate` does. A
    call is left as it is where its events can no longer say it: its customer was erased, its bodies were pruned, or a
    release wrote them whose events did not say everything. Where the projections know of events that are not there,
    nothing is changed either: that may be the last trace of them.
    """
    figures = with_ledger(data, lambda ledger: _rebuild(ledger, _Figures(check), trust_events, quiet=as_json))
    if as_json:
        print_json(figures.as_json())
    else:
        typer.echo(figures.summary())
    if not figures.holds:
        raise typer.Exit(1)


async def _rebuild(ledger: Ledger, figures: _Figures, trust_events: bool, *, quiet: bool) -> _Figures:
    with progress("Comparing") as done:
        total = await ledger.rebuilding.count()
        async for call in ledger.rebuilding.compare(mend=not figures.check, trust_events=trust_events):
            for line in figures.add(call):
                if not quiet:
                    typer.echo(line)
            done(figures.calls, total)
    figures.sums = await ledger.rebuilding.sums(mend=not figures.check)
    return figures
