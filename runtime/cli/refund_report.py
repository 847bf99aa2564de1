"""How `counterseal report refunds` prints what became of the refunds that were asked for."""

from rich.text import Text

from api.pages.text import money, words
from ledger.refunds import Outcome, RefundReport, Sums
from runtime.cli.output import console, plain, table

# As they are printed; a status that nothing ended with is left out.
_ORDER: tuple[Outcome, ...] = (
    *("executed", "reversed", "denied", "refused", "expired", "cancelled", "failed"),
    *("pending_approval", "in_progress", "outcome_unknown"),
)


def as_json(report: RefundReport) -> dict[str, object]:
    """All of it as plain values; amounts in minor units."""
    return {
        "total": _sums(report.total),
        "by_agent": [{"agent_id": name, **_sums(each)} for name, each in sorted(report.by_agent.items())],
        "by_rule": [{"rule": name, **_sums(each)} for name, each in sorted(report.by_rule.items())],
        "unknown": [
            {"found": found, "outcome": outcome, "count": count}
            for (found, outcome), count in sorted(report.unknown.items())
        ],
    }


def show(report: RefundReport) -> None:
    """Print tables: amounts by currency, counts by agent and rule, and how unknown outcomes were found."""
    terminal = console()
    if not report.total.asked:
        terminal.print(Text("No refund was asked for in that time."))
        return
    amounts = table("Outcome", "Refunds", *report.total.currencies, title="Asked for in that time, as it stands now")
    for outcome in _present(report.total):
        sums = (_amount(report.total, currency, outcome) for currency in report.total.currencies)
        amounts.add_row(words(outcome), str(report.total.count[outcome]), *sums)
    terminal.print(amounts)
    if report.total.unreadable:
        terminal.print(Text(f"Without an amount, as the customer was erased: {report.total.unreadable}"))
    for heading, groups in (("Agent", report.by_agent), ("Rule", report.by_rule)):
        shown = table(
            heading, "Refunds", *(words(each).capitalize() for each in _present(report.total)), "Sum executed"
        )
        for name, each in sorted(groups.items()):
            counts = (str(each.count[outcome]) for outcome in _present(report.total))
            executed = (_amount(each, currency, "executed") for currency in each.currencies)
            shown.add_row(plain(name), str(each.asked), *counts, ", ".join(sum_ for sum_ in executed if sum_))
        terminal.print(shown)
    if report.unknown:
        found = table("The outcome was not known, and was found", "It is", "Refunds")
        for (how, outcome), count in sorted(report.unknown.items()):
            found.add_row(how, words(outcome), str(count))
        terminal.print(found)


def _present(sums: Sums) -> list[Outcome]:
    return [each for each in _ORDER if sums.count[each]]


def _amount(sums: Sums, currency: str, outcome: Outcome) -> str:
    return money(sums.amounts[currency, outcome], currency) if sums.amounts[currency, outcome] else ""


def _sums(sums: Sums) -> dict[str, object]:
    return {
        "asked": sums.asked,
        "count": {outcome: sums.count[outcome] for outcome in _ORDER},
        "amounts": [
            {"currency": currency, **{outcome: sums.amounts[currency, outcome] for outcome in _ORDER}}
            for currency in sums.currencies
        ],
        "without_amount": sums.unreadable,
    }
