"""What became of refunds, added up from a real ledger."""

from datetime import UTC, datetime, timedelta

import pytest

from activities.outcomes import after_recheck
from ledger.ledger import Ledger
from ledger.periods import Period
from ledger.records import CallRecord, Step
from ledger.refunds import RefundReport, Refunds, found_by, outcome_of
from ledger.reviews import Conclusion, Settled
from schemas.codes import Code
from schemas.effects import Exchange, Failed
from schemas.events import EffectIntended
from tests.api.parked import TARGET, TENANT, ask_for_review, confirm, lose_answer, park
from tests.ledger.refunds import decide, open_ledger

TOOLS = ["issue_refund"]
EXCHANGE = Exchange(
    system="payments", method="GET", path_template="/v1/refunds", reached="response_received", elapsed_ms=9
)


def _period() -> Period:
    now = datetime.now(UTC)
    return Period(now - timedelta(days=1), now + timedelta(days=1))


async def report(ledger: Ledger, tenant: str | None = TENANT, period: Period | None = None) -> RefundReport:
    return await Refunds(ledger.system, ledger.keys).report(tenant, period or _period(), TOOLS)


async def reverse(ledger: Ledger, request_id: str) -> None:
    """The bank of the customer sent the money back."""

    def step(record: CallRecord, now: datetime) -> Step | None:
        assert record.details.effect is not None
        found = Failed(code=Code.REMOTE_REFUSED, exchange=EXCHANGE)
        return after_recheck(record, record.details.effect, found, done="", now=now)

    _, changed = await ledger.calls.advance(request_id, step)
    assert changed


async def send_again(ledger: Ledger, request_id: str) -> None:
    def step(record: CallRecord, now: datetime) -> Step:
        assert record.details.effect is not None
        effect = record.details.effect.model_copy(update={"attempt": 2, "sent_again_at": now})
        event = EffectIntended(effect=effect, policy_version="p", facts={})
        return Step([event], record.status, record.code, effect=effect)

    await ledger.calls.advance(request_id, step)


async def test_no_refund_adds_up_to_nothing(ledger: Ledger) -> None:
    found = await report(ledger)
    assert (found.total.asked, found.by_agent, found.by_rule, found.unknown) == (0, {}, {}, {})


async def test_amounts_are_added_by_outcome_currency_agent_and_rule(ledger: Ledger) -> None:
    yen = {**TARGET, "amount_cents": 5_000, "currency": "JPY"}
    done, back = await park(ledger), await park(ledger, agent_id="night-bot")
    abroad = await park(ledger, rule="fraud_flag")
    for approval, target in ((done, TARGET), (back, TARGET), (abroad, yen)):
        await lose_answer(ledger, approval.request_id, target=target)
        await confirm(ledger, approval.request_id)
    await reverse(ledger, back.request_id)
    await decide(ledger, await park(ledger, agent_id="night-bot"), verdict="deny")
    withdrawn = await park(ledger)
    await ledger.approvals.withdraw(withdrawn.request_id, "support-bot")
    await park(ledger)
    await park(ledger, tool="cancel_order")
    await park(ledger, tenant="other")
    found = await report(ledger)
    assert dict(found.total.count) == {"executed": 2, "reversed": 1, "denied": 1, "cancelled": 1, "pending_approval": 1}
    assert dict(found.total.amounts) == {
        ("USD", "executed"): 31_240,
        ("JPY", "executed"): 5_000,
        ("USD", "reversed"): 31_240,
        ("USD", "denied"): 31_240,
        ("USD", "cancelled"): 31_240,
        ("USD", "pending_approval"): 31_240,
    }
    assert found.total.currencies == ["JPY", "USD"]
    assert dict(found.by_agent["night-bot"].count) == {"reversed": 1, "denied": 1}
    assert dict(found.by_rule["fraud_flag"].amounts) == {("JPY", "executed"): 5_000}
    assert sum(each.asked for each in found.by_rule.values()) == found.total.asked == 6
    assert (await report(ledger, None)).total.asked == 7


async def test_only_what_was_asked_for_in_the_period_is_added(ledger: Ledger) -> None:
    since = datetime(2026, 11, 1, tzinfo=UTC)
    until = since + timedelta(days=1)
    instant = timedelta(microseconds=1)
    for at in (since - instant, since, until - instant, until):
        await park(ledger, requested_at=at)
    assert (await report(ledger, period=Period(since, until))).total.asked == 2


async def test_outcomes_that_were_not_known_say_how_they_were_found(ledger: Ledger) -> None:
    looked, again, person, asked, looking, known = [await park(ledger) for _ in range(6)]
    for approval in (looked, again, person, asked, looking):
        await lose_answer(ledger, approval.request_id)
    await confirm(ledger, looked.request_id)
    await send_again(ledger, again.request_id)
    await confirm(ledger, again.request_id)
    for approval in (person, asked):
        await ask_for_review(ledger, approval.request_id)
    conclusion = Conclusion(operator="olga", because="absent", happened=False, evidence="not in the dashboard")
    assert (await ledger.of(person.tenant).reviews.conclude(person.request_id, conclusion))[0] is Settled.RECORDED
    await decide(ledger, known, verdict="deny")
    assert dict((await report(ledger)).unknown) == {
        ("by a look-up", "executed"): 1,
        ("by sending it again", "executed"): 1,
        ("by a person", "failed"): 1,
        ("waiting for a person", "outcome_unknown"): 1,
        ("being looked up", "outcome_unknown"): 1,
    }


def test_a_refund_that_was_executed_after_all_is_not_reversed() -> None:
    assert outcome_of("failed", was_reversed=True) == "reversed"
    assert outcome_of("executed", was_reversed=True) == "executed"
    assert outcome_of("failed", was_reversed=False) == "failed"
    assert found_by("executed", in_review=False, by_person=True, sent_again=True) == "by a person"


async def test_an_erased_customers_refund_counts_without_its_amount(ledger: Ledger, database: str) -> None:
    for customer in ("cus_erased", "cus_kept"):
        await park(ledger, customer_id=customer)
    await ledger.system.execute("UPDATE data_keys SET wrapped = NULL WHERE subject = 'cus_erased'")
    # Another process, which has no key in memory.
    async with open_ledger(database) as other:
        found = await report(other)
    assert (found.total.asked, found.total.unreadable) == (2, 1)
    assert dict(found.total.amounts) == {("USD", "pending_approval"): 31_240}


async def test_more_than_one_page_is_read(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.refunds._PAGE", 2)
    for _ in range(5):
        await park(ledger)
    assert (await report(ledger)).total.asked == 5
