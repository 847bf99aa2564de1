"""What ledger and gateway say differently: every difference has its name, and agreement has none."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ledger.bookings import Refund, RefundCall
from ledger.reconciling import KINDS, SENTENCES, TOLERANCE, by_operation, differences, without_operation
from schemas import facts

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
CALL = RefundCall("act_1", "acme", "issue_refund", "support-bot", "over_threshold", "p@1", "executed")
OURS = Refund(
    CALL,
    standing="stands",
    amount=4_999,
    currency="USD",
    operation_id="op_1",
    refund_id="re_1",
    sent_at=NOW - timedelta(hours=1),
)
THEIRS = facts.Refund(
    refund_id="re_1",
    payment_id="pay_1",
    amount_cents=4_999,
    currency="USD",
    status="succeeded",
    created_at=NOW - timedelta(hours=1),
    operation_id="op_1",
)


def there(**changes: Any) -> facts.Refund:
    return THEIRS.model_copy(update=changes)


def here(**changes: Any) -> Refund:
    return replace(OURS, **changes)


FAILED = there(status="failed")
CASES: dict[str, tuple[Refund | None, list[facts.Refund], list[str]]] = {
    "agreed": (here(), [THEIRS], []),
    "pending is done": (here(), [there(status="pending")], []),
    "reversed on both": (here(standing="reversed"), [FAILED], []),
    "failed on both": (here(standing="failed", refund_id=None), [FAILED], []),
    "failed here and nothing there": (here(standing="failed", refund_id=None), [], []),
    "not known here and nothing there": (here(standing="unknown", refund_id=None), [], []),
    "erased here": (here(amount=None, currency=None), [THEIRS], []),
    "just being sent": (here(standing="sent", refund_id=None, sent_at=NOW - TOLERANCE / 2), [THEIRS], []),
    "an operation that the ledger has not": (None, [THEIRS], ["not_here"]),
    "nothing there": (here(), [], ["not_there"]),
    "reversed here and nothing there": (here(standing="reversed"), [], ["not_there"]),
    "another amount": (here(), [there(amount_cents=4_998)], ["amount_differs"]),
    "another currency": (here(), [there(currency="EUR")], ["currency_differs"]),
    "another refund": (here(), [there(refund_id="re_2")], ["refund_differs"]),
    "failed there": (here(), [FAILED], ["failed_there"]),
    "canceled there": (here(), [there(status="canceled")], ["failed_there"]),
    "failed there, of another amount": (
        here(),
        [there(status="failed", amount_cents=1)],
        ["amount_differs", "failed_there"],
    ),
    "reversed here and standing there": (here(standing="reversed"), [THEIRS], ["stands_there"]),
    "twice there": (here(), [THEIRS, there(refund_id="re_2")], ["twice"]),
    "twice there, of which one failed": (here(), [THEIRS, there(refund_id="re_2", status="failed")], ["twice"]),
    "not known here and found": (here(standing="unknown", refund_id=None), [THEIRS], ["found_there"]),
    "being sent for too long": (here(standing="sent", refund_id=None), [THEIRS], ["found_there"]),
    "in review here and failed there": (here(standing="in_review", refund_id=None), [FAILED], ["found_there"]),
    "failed here and done there": (here(standing="failed", refund_id=None), [THEIRS], ["done_there"]),
    "a state that nobody knows": (here(), [there(status="unknown")], ["status_unreadable"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_difference_is_named(case: str) -> None:
    ours, theirs, kinds = CASES[case]
    found = differences({} if ours is None else {"op_1": ours}, by_operation(theirs), NOW)
    assert [each.kind for each in found] == kinds
    for each in found:
        assert each.operation_id == "op_1"
        assert each.request_id == (None if ours is None else "act_1")
        assert list(each.there) == theirs
        assert each.sentence


def test_what_carries_no_operation_is_not_ours() -> None:
    late, early = there(refund_id="re_9", operation_id=None), there(refund_id="re_8", operation_id="", created_at=NOW)
    found = without_operation([early, THEIRS, late, late])
    assert [(each.kind, each.there[0].refund_id) for each in found] == [("not_ours", "re_9"), ("not_ours", "re_8")]
    assert by_operation([early, late]) == {}


def test_a_refund_that_is_listed_twice_is_one() -> None:
    assert by_operation([THEIRS, THEIRS]) == {"op_1": [THEIRS]}


def test_every_kind_is_tried_and_has_a_sentence() -> None:
    assert {kind for _, _, kinds in CASES.values() for kind in kinds} | {"not_ours"} == set(KINDS) == set(SENTENCES)
