"""What the ledger and the payment gateway say differently about refunds. Pure.

The two are matched by the operation id that every refund of ours carries in the gateway's own record of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from ledger.bookings import Refund, Standing
from schemas import facts

TOLERANCE = timedelta(minutes=10)
"""How far the gateway's clock and the ledger's may be apart: the gateway is asked for as much more on both ends of a
period. What was sent as short a time ago may still be on its way."""

Kind = Literal[
    "not_ours",
    "not_here",
    "not_there",
    "amount_differs",
    "currency_differs",
    "refund_differs",
    "failed_there",
    "stands_there",
    "twice",
    "found_there",
    "done_there",
    "status_unreadable",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
SENTENCES: Mapping[Kind, str] = {
    "not_ours": "At the gateway, without an operation of ours: made by hand or by another system",
    "not_here": "At the gateway, with an operation of ours that the ledger does not have",
    "not_there": "Done by the ledger, and the gateway does not have it",
    "amount_differs": "The amounts differ",
    "currency_differs": "The currencies differ",
    "refund_differs": "The gateway has another refund for this operation than the ledger",
    "failed_there": "Done by the ledger, and failed at the gateway: its reversal is not in the ledger",
    "stands_there": "Reversed by the ledger, and it stands at the gateway",
    "twice": "At the gateway more than once for one operation",
    "found_there": "Not known to the ledger, and the gateway has it",
    "done_there": "Not done by the ledger, and the gateway has done it",
    "status_unreadable": "The gateway has it in a state that is not known here",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that the two say differently; amounts in minor units. None is what one side does not have or say."""

    kind: Kind
    operation_id: str | None = None
    request_id: str | None = None
    here: Standing | None = None
    here_amount: int | None = None
    here_currency: str | None = None
    there: tuple[facts.Refund, ...] = ()

    @property
    def sentence(self) -> str:
        return SENTENCES[self.kind]


def by_operation(theirs: Iterable[facts.Refund]) -> dict[str, list[facts.Refund]]:
    """The gateway's refunds that carry an operation id, each once."""
    found: dict[str, dict[str, facts.Refund]] = {}
    for each in theirs:
        if each.operation_id:
            found.setdefault(each.operation_id, {})[each.refund_id] = each
    return {operation_id: list(refunds.values()) for operation_id, refunds in found.items()}


def differences(
    ours: Mapping[str, Refund], theirs: Mapping[str, Sequence[facts.Refund]], now: datetime
) -> list[Difference]:
    """Of every operation that either has, in the order of their ids; `ours` has those of the ledger, whatever the time
    they were made at."""
    found: list[Difference] = []
    for operation_id in sorted({*ours, *theirs}):
        here, there = ours.get(operation_id), theirs.get(operation_id, ())
        if here is None:
            found.append(Difference("not_here", operation_id, there=tuple(there)))
        else:
            found += [
                Difference(
                    kind, operation_id, here.call.request_id, here.standing, here.amount, here.currency, tuple(there)
                )
                for kind in _kinds(here, there, now)
            ]
    return found


def without_operation(theirs: Iterable[facts.Refund]) -> list[Difference]:
    """Those of the gateway that nobody here sent, in the order of time."""
    strangers = {each.refund_id: each for each in theirs if not each.operation_id}
    ordered = sorted(strangers.values(), key=lambda each: (each.created_at, each.refund_id))
    return [Difference("not_ours", there=(each,)) for each in ordered]


def _kinds(here: Refund, there: Sequence[facts.Refund], now: datetime) -> list[Kind]:
    if not there:
        return ["not_there"] if here.standing in ("stands", "reversed") else []
    if len(there) > 1:
        return ["twice"]
    (refund,) = there
    if refund.status == "unknown":
        return ["status_unreadable"]
    found: list[Kind] = []
    if here.currency is not None and refund.currency != here.currency:
        found.append("currency_differs")
    elif here.amount is not None and refund.amount_cents != here.amount:
        found.append("amount_differs")
    if here.refund_id is not None and refund.refund_id != here.refund_id:
        found.append("refund_differs")
    state = _state(here, refund, now)
    return found if state is None else [*found, state]


def _state(here: Refund, there: facts.Refund, now: datetime) -> Kind | None:
    match here.standing:
        case "stands":
            return None if there.stands else "failed_there"
        case "reversed":
            return "stands_there" if there.stands else None
        case "failed" | "unsent":
            return "done_there" if there.stands else None
        case "sent" if here.sent_at is not None and now - here.sent_at < TOLERANCE:
            return None
        case "sent" | "unknown" | "in_review":
            return "found_there"
