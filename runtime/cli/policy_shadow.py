"""`counterseal policy shadow`: where a candidate beside the policy in force said something else."""

from collections import Counter
from datetime import UTC, datetime
from typing import Annotated

import typer

from ledger.ledger import Ledger
from ledger.periods import Period, period
from ledger.shadows import Beside, Shadows
from runtime.cli.connecting import DataOption, JsonOption, with_ledger
from runtime.cli.errors import CommandError
from runtime.cli.output import console, instant, print_json, table

_MOST = 100


def shadow(
    since: Annotated[
        str | None,
        typer.Option(help="From when on: a day (UTC), or a time with its zone", show_default="30 days before"),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Until when; a day is counted to its end (UTC)", show_default="the end of today")
    ] = None,
    version: Annotated[
        str | None, typer.Option(help="Only this candidate's", metavar="NAME@DIGEST", show_default="each")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's", show_default="everyone's")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a candidate (COUNTERSEAL_SHADOW_POLICY) would have decided otherwise, in sum and call by call."""
    asked = _period(since, until)

    async def read(ledger: Ledger) -> tuple[Counter[tuple[str, ...]], list[Beside]]:
        sums: Counter[tuple[str, ...]] = Counter()
        differing: list[Beside] = []
        async for each in Shadows(ledger.system, ledger.keys).beside(asked, tenant):
            if version in (None, each.shadow.policy_version):
                sums[_kind(each)] += 1
                if each.differs and len(differing) < _MOST:
                    differing.append(each)
        return sums, differing

    sums, differing = with_ledger(data, read)
    if as_json:
        names = ("candidate", "tool", "decided", "rule", "would_be", "would_be_rule")
        print_json(
            {
                "since": asked.since,
                "until": asked.until,
                "sums": [{**dict(zip(names, kind, strict=True)), "calls": count} for kind, count in sums.most_common()],
                "differing": [_plain(each) for each in differing],
            }
        )
        return
    _print(sums, differing)


def _print(sums: Counter[tuple[str, ...]], differing: list[Beside]) -> None:
    if not sums:
        console().print("No candidate was asked in that time.")
        return
    total = sum(sums.values())
    other = sum(count for kind, count in sums.items() if kind[2] != kind[4])
    console().print(f"Asked about {total} calls, and {other} of them would have been decided otherwise.")
    shown = table("Candidate", "Tool", "Decided", "By", "Would be", "By", "Calls")
    for kind, count in sums.most_common():
        if kind[2] != kind[4]:
            shown.add_row(*kind, str(count))
    if other:
        console().print(shown)
        shown = table("Request", "At", "Tool", "Decided", "Would be")
        for each in differing:
            kind = _kind(each)
            at = instant(each.at)
            shown.add_row(each.request_id, at, each.tool, f"{kind[2]} ({kind[3]})", f"{kind[4]} ({kind[5]})")
        console().print(shown)
    if len(differing) == _MOST < other:
        console().print(f"The first {_MOST} are shown.")


def _kind(each: Beside) -> tuple[str, ...]:
    decision, candidate = each.decision, each.shadow
    return (
        candidate.policy_version,
        each.tool,
        " ".join(filter(None, (decision.verdict, decision.code))),
        decision.rule,
        " ".join(filter(None, (candidate.verdict or "no answer", candidate.code))),
        candidate.rule,
    )


def _plain(each: Beside) -> dict[str, object]:
    return {
        "request_id": each.request_id,
        "tenant": each.tenant,
        "tool": each.tool,
        "at": each.at,
        "decided": {"verdict": each.decision.verdict, "rule": each.decision.rule, "code": each.decision.code},
        "would_be": each.shadow.model_dump(),
    }


def _period(since: str | None, until: str | None) -> Period:
    try:
        return period(since, until, datetime.now(UTC))
    except ValueError as problem:
        raise CommandError(str(problem)) from None
