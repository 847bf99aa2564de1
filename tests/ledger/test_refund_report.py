"""What became of refunds, added up from a real ledger."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activities.outcomes import after_recheck
from ledger.ledger import Ledger
from ledger.periods import Period
from ledger.records import CallRecord, Step
from ledger.refunds import Books, RefundReport, Refunds, found_by, outcome_of
from ledger.reviews import Conclusion, Settled
from schemas.codes import Code
from schemas.effects import Exchange, Failed
from schemas.events import EffectIntended
from tests.api.parked import TARGET, TENANT, ask_for_review, confirm, lose_answer, operation_of, park
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
        return Step([event])

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


async def books(ledger: Ledger, period: Period, tenant: str | None = TENANT) -> Books:
    return await Refunds(ledger.system, ledger.keys).books(tenant, period, TOOLS)


async def test_refunds_are_booked_on_the_day_the_gateway_says(ledger: Ledger) -> None:
    """Half open: what happens at the end is the next period's. A look-up that came late books it where it belongs."""
    until = datetime.now(UTC)
    since = until - timedelta(hours=20)
    instant = timedelta(microseconds=1)
    for at in (since - instant, since, until - instant, until):
        await confirmed(ledger, at)
    await confirmed(ledger, since, tenant="other")
    found = await books(ledger, Period(since, until))
    assert [each.booking.at for each in found.lines] == [since, until - instant]
    assert {each.booking.time_of for each in found.lines} == {"gateway"}
    assert len((await books(ledger, Period(since, until), None)).lines) == 3


async def test_a_late_failure_is_a_line_of_its_own_day(ledger: Ledger) -> None:
    now = datetime.now(UTC)
    request_id = await confirmed(ledger, now - timedelta(hours=20))
    await reverse(ledger, request_id)
    (refund,) = (await books(ledger, Period(now - timedelta(days=1), now - timedelta(hours=1)))).lines
    (reversal,) = (await books(ledger, Period(now - timedelta(hours=1), now + timedelta(days=1)))).lines
    assert (refund.booking.kind, refund.booking.amount) == ("refund", 31_240)
    assert (reversal.booking.kind, reversal.booking.amount, reversal.booking.time_of) == ("reversal", -31_240, "ledger")


async def test_what_is_not_known_is_no_booking(ledger: Ledger) -> None:
    lost, asked, parked = await park(ledger), await park(ledger), await park(ledger)
    for each in (lost, asked):
        await lose_answer(ledger, each.request_id)
    await ask_for_review(ledger, asked.request_id)
    found = await books(ledger, _period())
    assert found.lines == []
    standings = {each.call.request_id: each.standing for each in found.open}
    assert standings == {lost.request_id: "unknown", asked.request_id: "in_review"}
    assert parked.request_id not in standings
    before = datetime.now(UTC) - timedelta(hours=1)
    assert (await books(ledger, Period(before - timedelta(days=9), before))).open == []


async def test_bookings_are_read_in_pages_and_found_by_their_operation(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.refunds._PAGE", 2)
    made = [await confirmed(ledger, datetime.now(UTC)) for _ in range(5)]
    assert {each.refund.call.request_id for each in (await books(ledger, _period())).lines} == set(made)
    reader = Refunds(ledger.system, ledger.keys)
    found = await reader.by_operations([operation_of(made[3]), "op_of_nobody"])
    assert [(name, each.call.request_id) for name, each in found.items()] == [(operation_of(made[3]), made[3])]


async def test_an_erased_customers_refund_is_booked_without_an_amount(ledger: Ledger, database: str) -> None:
    await confirmed(ledger, datetime.now(UTC), customer_id="cus_erased")
    await ledger.system.execute("UPDATE data_keys SET wrapped = NULL WHERE subject = 'cus_erased'")
    async with open_ledger(database) as other:
        (line,) = (await books(other, _period())).lines
    assert (line.booking.amount, line.booking.time_of, line.refund.erased) == (None, "ledger", True)


async def confirmed(ledger: Ledger, at: datetime, **changes: Any) -> str:
    """A refund that happened at that time by the gateway's clock; its call."""
    approval = await park(ledger, **changes)
    await lose_answer(ledger, approval.request_id)
    await confirm(ledger, approval.request_id, at=at)
    return approval.request_id
