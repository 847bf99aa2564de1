"""How `counterseal report approvals` prints what gates did."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from api.pages.text import took
from ledger.gates import GateReport, Outcomes
from ledger.measures import CONFIDENCE, ENOUGH, NEARLY_ALWAYS, OFTEN_NOT, WORDS_PER_MINUTE, Rate, rounded
from runtime.cli.output import console, instant, plain, table


def as_json(report: GateReport) -> dict[str, object]:
    """All of it as plain values."""
    queue = report.queue
    return {
        "since": report.period.since,
        "until": report.period.until,
        "measures": {
            "nearly_always_percent": NEARLY_ALWAYS,
            "often_not_percent": OFTEN_NOT,
            "enough_decisions": ENOUGH,
            "confidence_percent": CONFIDENCE,
            "words_per_minute": WORDS_PER_MINUTE,
        },
        "total": _outcomes(report.total),
        "gates": [
            {"tool": each.tool, "rule": each.rule, **_outcomes(each.outcomes), "finding": _finding(each.outcomes)}
            for each in report.gates
        ],
        "approvers": [
            {"approver": each.person, **_outcomes(each.outcomes), "by_others": each.outcomes.by_others}
            for each in report.approvers
        ],
        "gated": {
            "held": report.held,
            "decided": report.decided,
            "step_seconds": int(report.period.step.total_seconds()),
            "parts": [
                {"start": each.start, "held": each.held, "passed": each.passed, "refused": each.refused}
                for each in report.parts
            ],
        },
        "queue": {"waiting": queue.waiting, "due_within_the_hour": queue.due_soon, "oldest_requested_at": queue.oldest},
    }


def show(report: GateReport) -> None:
    """Print tables, and a sentence about each gate."""
    terminal = console()
    terminal.print(Text(f"Asked for from {instant(report.period.since)} until {instant(report.period.until)}"))
    if not report.gates:
        terminal.print(Text("Nobody was asked anything in that time."))
    else:
        gates = [(_named(each.tool, each.rule), each.outcomes) for each in report.gates]
        terminal.print(_table("Gate", gates))
        for name, outcomes in gates:
            terminal.print(Text(f"{name}: {outcomes.finding.sentence}"))
        people = [(plain(each.person), each.outcomes) for each in report.approvers]
        terminal.print(_table("Approver", people))
        terminal.print(_haste(people))
        terminal.print(Text("This measures the gates, not the people: a gate that asks too often is what makes hasty."))
    share = f" ({report.held * 100 / report.decided:.1f} %)" if report.decided else ""
    terminal.print(Text(f"{report.decided} writes decided by the policy, {report.held} of them held{share}"))
    oldest = "" if report.queue.oldest is None else f", the oldest since {instant(report.queue.oldest)}"
    terminal.print(Text(f"Waiting now: {report.queue.waiting}{oldest}; due within the hour: {report.queue.due_soon}"))


def _outcomes(outcomes: Outcomes) -> dict[str, object]:
    rate = outcomes.rate
    return {
        "asked": outcomes.asked,
        "approved": outcomes.approved,
        "denied": outcomes.denied,
        "expired": outcomes.expired,
        "withdrawn": outcomes.withdrawn,
        "waiting": outcomes.waiting,
        "voided": outcomes.voided,
        "approve_rate": None if rate is None else _rate(rate),
        "seconds_to_decision": {"median": _tenths(outcomes.median_seconds), "p90": _tenths(outcomes.p90_seconds)},
        "decisions": {
            "timed": outcomes.timed,
            "too_quick_to_read": outcomes.too_quick,
            "unopened": outcomes.unopened,
            "through_api": outcomes.through_api,
        },
    }


def _rate(rate: Rate) -> dict[str, float]:
    low, high = rate.interval
    return {"percent": round(rate.percent, 1), "low_percent": round(low, 1), "high_percent": round(high, 1)}


def _finding(outcomes: Outcomes) -> dict[str, object]:
    found = outcomes.finding
    return {"band": found.band, "certain": found.certain, "missing": found.missing, "sentence": found.sentence}


def _tenths(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _named(tool: str, rule: str | None) -> str:
    return plain(tool if rule is None else f"{tool} / {rule}")


def _table(first: str, rows: Iterable[tuple[str, Outcomes]]) -> Table:
    ends = ("Asked", "Approved", "Denied", "Expired", "Withdrawn", "Waiting", "Voided")
    shown = table(first, *ends, "Approve rate", "Median", "p90")
    for name, each in rows:
        counts = (each.asked, each.approved, each.denied, each.expired, each.withdrawn, each.waiting, each.voided)
        times = ("" if at is None else took(at) for at in (each.median_seconds, each.p90_seconds))
        shown.add_row(name, *(str(count) for count in counts), _told(each.rate), *times)
    return shown


def _told(rate: Rate | None) -> str:
    if rate is None:
        return ""
    low, high = rounded(rate.interval)
    return f"{rate.percent:.1f} % ({low}–{high})"


def _haste(people: Iterable[tuple[str, Outcomes]]) -> Table:
    shown = table("Approver", "Decided", "After a look", "Quicker than reading", "Without a look", "Through the API")
    for name, each in people:
        counts = (each.decided, each.timed, each.too_quick, each.unopened, each.through_api)
        shown.add_row(name, *(str(count) for count in counts))
    return shown
