"""Recorded calls decided again: read from a real ledger, by the very policy that decided them and by another."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from api.backtesting import Backtest, backtest
from ledger.ledger import Ledger
from ledger.periods import Period
from policy.model import Policy
from policy.tally import Change
from schemas.calls import Binding
from tests.ledger.policies import small
from tests.ledger.refunds import CATALOG, POLICY, Refund, decide, new_binding, open_ledger

LATER = timedelta(hours=1)


@pytest.fixture
async def played(ledger: Ledger) -> tuple[Ledger, Binding]:
    """Refunds that ran, were refused, and were held; of those one was denied and one waits."""
    binding = new_binding()
    await ledger.policies.begun(POLICY.version, POLICY.document.model_dump_json(exclude_defaults=True), by="test")
    for amount in (5_000, 9_000, 9_000, 20_001, 25_000, 45_000):
        refund = Refund(amount, available=40_000, binding=binding)
        record = await refund.admit(ledger)
        if amount == 20_001 and record.approval_id is not None:
            approval = await ledger.of(binding.tenant).approvals.get(binding.tenant, record.approval_id)
            assert approval is not None
            await decide(ledger, approval, verdict="deny", reason="no")
    return ledger, binding


async def replayed(
    ledger: Ledger, candidate: Policy, *, thorough: bool = False, **asked: str
) -> tuple[Backtest, list[Change]]:
    now, changes = datetime.now(UTC), list[Change]()
    span = Period(now - LATER, now + LATER)
    return await backtest(ledger, CATALOG, candidate, span, changed=changes.append, thorough=thorough, **asked), changes


@pytest.mark.parametrize("thorough", [False, True])
async def test_the_very_same_decisions(played: tuple[Ledger, Binding], *, thorough: bool) -> None:
    ledger, binding = played
    found, changes = await replayed(ledger, POLICY, thorough=thorough)
    assert changes == []
    assert found.tally.calls == 6
    assert found.tally.then.verdicts == found.tally.now.verdicts
    assert {"notify", "hold", "refuse"} <= found.tally.then.verdicts.keys()
    assert (found.versions, found.uncounted, found.unread.erased) == ((POLICY.version,), (), 0)
    assert (await replayed(ledger, POLICY, tenant="other"))[0].tally.calls == 0
    assert (await replayed(ledger, POLICY, tenant=binding.tenant))[0].tally.calls == 6


async def test_another_policy(played: tuple[Ledger, Binding], tmp_path: Path) -> None:
    ledger, _ = played
    candidate = small(
        tmp_path, "rules: [{name: large, hold: leads, people: 2, when: args.amount_cents > 8000, because: it is large}]"
    )
    found, changes = await replayed(ledger, candidate)
    kinds = [(change.amount, change.kind, change.now.rule) for change in changes]
    assert (9_000, "held", "large") in kinds
    assert (5_000, "held", "large") not in kinds
    assert found.tally.now.asked["leads"] == 2 * found.tally.now.verdicts["hold"]
    assert found.waits.people == 1
    assert found.waits.seconds["issue_refund"] < 60
    assert found.tally.now.money == {"USD": 5_000}


async def test_turns_are_counted_as_they_were(ledger: Ledger, tmp_path: Path) -> None:
    def by_turn(name: str) -> Policy:
        rule = f"rules: [{{name: many, hold: finance, when: totals.{name} > 1, because: many in one turn}}]"
        return small(tmp_path, f"totals: {{{name}: {{per: turn, of: count}}}}", rule)

    policy, binding = by_turn("turn"), new_binding()
    await ledger.policies.begun(policy.version, policy.document.model_dump_json(exclude_defaults=True), by="test")
    for trace in ("a" * 32, "a" * 32, "b" * 32, "a" * 32, None, None):
        await Refund(1_000, binding=binding, policy=policy, trace_id=trace).admit(ledger)
    for candidate in (policy, by_turn("counted_anew")):
        found, changes = await replayed(ledger, candidate, thorough=True)
        assert (changes, found.uncounted) == ([], ())
        assert found.tally.now.verdicts == {"notify": 5, "hold": 1}


async def test_a_policy_that_nobody_kept_the_text_of(ledger: Ledger, tmp_path: Path) -> None:
    """What it counted is not known, so everything is counted anew, from the first call on."""
    other = small(tmp_path, "limits: [{name: refunds_per_run, per: run, max: 2}]")
    binding = new_binding()
    for _ in range(3):
        await Refund(1_000, binding=binding, policy=other).admit(ledger)
    found, changes = await replayed(ledger, small(tmp_path, "limits: [{name: refunds_per_run, per: run, max: 1}]"))
    assert found.uncounted == (other.version,)
    assert [change.now.rule for change in changes] == ["refunds_per_run"]


async def test_what_is_gone_is_counted_and_not_guessed(ledger: Ledger, database: str) -> None:
    record = await Refund(45_000, available=40_000, binding=new_binding()).admit(ledger)
    customer = record.details.call.binding.customer_id
    assert (await replayed(ledger, POLICY))[0].tally.calls == 1
    assert await ledger.erasures.erase(record.tenant, customer, by="ops", reason="asked for") == 1
    async with open_ledger(database) as fresh:
        found, changes = await replayed(fresh, POLICY)
    assert (found.tally.calls, changes, found.unread.erased) == (0, [], 1)
