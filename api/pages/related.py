"""What stands beside an approval, as its page shows it: the customer's earlier refunds, and what else waits. Pure."""

from dataclasses import dataclass

from markupsafe import Markup

from api.pages.text import money, visible, words
from ledger.related import AllAlike, Earlier, EarlierCalls
from schemas.codes import Status
from tools.catalog import Catalog

_OUTCOMES: dict[Status, str] = {
    "executed": "Done",
    "refused": "Refused",
    "denied": "Denied",
    "expired": "Expired",
    "cancelled": "Withdrawn",
    "failed": "Not done",
    "outcome_unknown": "Not known yet",
    "in_progress": "Under way",
}


@dataclass(frozen=True, slots=True)
class EarlierRow:
    """One earlier refund. `approval_id` where people were asked about it."""

    call: Earlier
    amount: Markup
    order: Markup
    reason: Markup
    outcome: str


@dataclass(frozen=True, slots=True)
class Related:
    """`sentence` says what the earlier ones come to; `of_customer`, how many of those listed in `alike` are the
    customer's."""

    earlier: tuple[EarlierRow, ...]
    sentence: str
    alike: AllAlike

    @property
    def of_customer(self) -> int:
        return sum(each.of_customer for each in self.alike.first)


def refund_tools(catalog: Catalog) -> list[str]:
    """The tools that refund."""
    return [each.manifest.name for each in catalog.all() if each.manifest.operation == "refund"]


def related(earlier: EarlierCalls, alike: AllAlike) -> Related:
    return Related(tuple(_row(each) for each in earlier.latest), _sentence(earlier), alike)


def _row(call: Earlier) -> EarlierRow:
    none = Markup("–")
    return EarlierRow(
        call,
        visible(money(call.amount, call.currency)) if call.amount is not None and call.currency else none,
        visible(call.order_id) if call.order_id else none,
        visible(words(call.reason_code)) if call.reason_code else none,
        _OUTCOMES[call.status],
    )


def _sentence(earlier: EarlierCalls) -> str:
    """`In the last 90 days: 3 done, 120.00 USD together; 1 denied.`"""
    said: list[str] = []
    for status, label in _OUTCOMES.items():
        number = earlier.count[status]
        if not number:
            continue
        sums = " and ".join(money(amount, currency) for currency, amount in sorted(earlier.executed.items()))
        together = f", {sums} together" if status == "executed" and sums else ""
        said.append(f"{number} {label[0].lower()}{label[1:]}{together}")
    least = "at least " if earlier.more else ""
    return f"In the last 90 days: {least}{'; '.join(said) or 'none'}."
