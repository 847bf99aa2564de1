"""Each change of a call is counted once, under names that nobody made up."""

from collections import Counter

import pytest

from ledger import counting
from ledger.ledger import Ledger
from ledger.records import Step
from schemas.codes import Code
from schemas.events import BreakerTripped, EffectConfirmed, EffectUnknown, LimitHit
from tests.ledger.refunds import Refund, advance, decide, exchange, parked

TOOL = "issue_refund"


class Counted:
    """In the place of an instrument."""

    def __init__(self) -> None:
        self.told: Counter[tuple[str, ...]] = Counter()

    def add(self, amount: int, labels: dict[str, str]) -> None:
        self.told[tuple(labels.values())] += amount


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, Counted]:
    made = {name: Counted() for name in ("_CALLS", "_EFFECTS", "_DECISIONS", "_LIMITS", "_TRIPS")}
    for name, each in made.items():
        monkeypatch.setattr(counting, name, each)
    return made


async def test_a_call_is_counted_as_it_comes_to_stand(ledger: Ledger, counted: dict[str, Counted]) -> None:
    approval = await parked(ledger)
    assert counted["_CALLS"].told == {(TOOL, "pending_approval", "PENDING_APPROVAL"): 1}
    await decide(ledger, approval, verdict="deny", reason="example")
    await ledger.approvals.reject(approval.request_id, approval.approval_id, "example")
    assert counted["_CALLS"].told == {
        (TOOL, "pending_approval", "PENDING_APPROVAL"): 1,
        (TOOL, "denied", Code.USER_DENIED.value): 1,
    }
    assert counted["_DECISIONS"].told == {(TOOL, "denied"): 1, (TOOL, "rejected"): 1}


async def test_what_became_of_effects_is_counted(ledger: Ledger, counted: dict[str, Counted]) -> None:
    record = await Refund(100).admit(ledger)
    unknown = EffectUnknown(operation_id="op_1", exchange=exchange(), operation="refund")
    found = EffectConfirmed(operation_id="op_1", remote_id="re_1", result={}, exchange=exchange())
    await advance(ledger, record, Step([unknown]))
    await advance(ledger, record, Step([found]))
    assert counted["_EFFECTS"].told == {(TOOL, "unknown"): 1, (TOOL, "confirmed"): 1}


async def test_limits_and_breakers_are_counted_by_name(ledger: Ledger, counted: dict[str, Counted]) -> None:
    record = await Refund(100).admit(ledger)
    trip = BreakerTripped(switch=f"tool:{TOOL}", tool=TOOL, max=1, window_seconds=1, because="example")
    counting.count(record, record, [LimitHit(limit="refunds_per_run", subject="run:run_1"), trip])
    assert counted["_LIMITS"].told == {(TOOL, "refunds_per_run"): 1}
    assert counted["_TRIPS"].told == {(TOOL,): 1}
