"""What gates did, counted on a real database: at the borders of a period, whatever became of an approval."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from activities.reconsidering import voided
from ledger.approvals import Verdict
from ledger.gates import GateReport, Gates, Outcomes
from ledger.ledger import Ledger
from ledger.measures import WORDS_PER_MINUTE, words_to_read
from ledger.periods import Period
from ledger.switches import Reach
from schemas.codes import Code
from schemas.decisions import Approval
from schemas.events import Through
from tests.api.parked import TENANT, park
from tests.ledger.refunds import CATALOG, Refund, decision, new_binding, open_ledger

READS = [each.manifest.name for each in CATALOG.all() if not each.manifest.writes]
SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)
SWITCH = "class:money_movement"


def _month() -> Period:
    tomorrow = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return Period(tomorrow - timedelta(days=30), tomorrow)


async def measure(ledger: Ledger, period: Period | None = None, **options: Any) -> GateReport:
    tenant = options.pop("tenant", TENANT)
    return await ledger.of(tenant).gates.report(tenant, period or _month(), reads=READS, **options)


async def decide(
    ledger: Ledger,
    approval: Approval,
    verdict: Literal["approve", "deny"] = "approve",
    *,
    by: str = "ana",
    through: Through | None = "page",
    after: float = 60,
    looked: float | None = None,
) -> None:
    """Decided `after` seconds; opened so many seconds before, where `looked` says."""
    if looked is not None:
        await ledger.of(approval.tenant).approvals.viewed(approval, by)
    made = decision(approval, verdict, approver=by)
    outcome, _ = await ledger.of(approval.tenant).approvals.decide(made, "token", (), through)
    assert outcome is Verdict.RECORDED
    decided_at = approval.requested_at + after * SECOND
    await ledger.system.execute(
        "UPDATE decisions SET decided_at = $2 WHERE decision_id = $1", made.decision_id, decided_at
    )
    await ledger.system.execute(
        "UPDATE views SET at = $3 WHERE approval_id = $1 AND viewer = $2",
        approval.approval_id,
        by,
        decided_at - (looked or 0) * SECOND,
    )


def ends(outcomes: Outcomes) -> tuple[int, ...]:
    """Asked, then what it comes to: approved, denied, expired, withdrawn, waiting."""
    each = outcomes
    return each.asked, each.approved, each.denied, each.expired, each.withdrawn, each.waiting


def of_people(report: GateReport) -> dict[str, Outcomes]:
    return {each.person: each.outcomes for each in report.approvers}


async def test_nothing_asked_is_counted_as_nothing(ledger: Ledger) -> None:
    report = await measure(ledger)
    assert ends(report.total) == (0, 0, 0, 0, 0, 0)
    assert (report.total.rate, report.total.median_seconds, report.gates, report.approvers) == (None, None, (), ())
    assert len(report.parts) == 30
    assert (report.decided, report.queue.waiting, report.queue.oldest) == (0, 0, None)


async def test_every_end_is_counted_by_tool_and_rule(ledger: Ledger) -> None:
    for after in (60, 120):
        await decide(ledger, await park(ledger), after=after)
    await decide(ledger, await park(ledger), "deny", after=600)
    expired = await park(ledger, expires_in=-SECOND, rule="fraud_flag")
    await ledger.approvals.expire(expired.request_id)
    withdrawn = await park(ledger, rule="fraud_flag")
    await ledger.approvals.withdraw(withdrawn.request_id, "support-bot")
    await park(ledger, tool="cancel_order", rule="late")
    await park(ledger, tenant="other")
    report = await measure(ledger)
    assert [(each.tool, each.rule, ends(each.outcomes)) for each in report.gates] == [
        ("cancel_order", None, (1, 0, 0, 0, 0, 1)),
        ("cancel_order", "late", (1, 0, 0, 0, 0, 1)),
        ("issue_refund", None, (5, 2, 1, 1, 1, 0)),
        ("issue_refund", "fraud_flag", (2, 0, 0, 1, 1, 0)),
        ("issue_refund", "over_threshold", (3, 2, 1, 0, 0, 0)),
    ]
    assert ends(report.total) == (6, 2, 1, 1, 1, 1)
    over = report.gates[-1].outcomes
    # 60, 120 and 600 seconds: between the two upper ones as percentile_cont has it.
    assert (over.median_seconds, over.p90_seconds) == pytest.approx((120, 504))
    only = await measure(ledger, tool="cancel_order")
    assert ends(only.total) == (1, 0, 0, 0, 0, 1)
    assert (only.queue.waiting, only.decided) == (1, 1)


async def test_the_queries_themselves_keep_tenants_apart(ledger: Ledger) -> None:
    for tenant in (TENANT, TENANT, "other"):
        await park(ledger, tenant=tenant)
    await decide(ledger, await park(ledger, tenant="other"), by="lea")
    # As the command line reads: nothing else stands between tenants here.
    gates = Gates(ledger.system)
    for tenant, asked, waiting, names in ((TENANT, 2, 2, []), ("other", 2, 1, ["lea"]), (None, 4, 3, ["lea"])):
        report = await gates.report(tenant, _month(), reads=READS)
        assert (report.total.asked, report.held, report.queue.waiting) == (asked, asked, waiting)
        assert [each.person for each in report.approvers] == names


async def test_a_period_begins_with_its_first_instant_and_ends_before_its_last(ledger: Ledger) -> None:
    since = datetime(2026, 11, 1, tzinfo=UTC)
    until = since + timedelta(days=3)
    for at in (since - MICROSECOND, since, since + timedelta(days=1) - MICROSECOND, until - MICROSECOND, until):
        # Decided long after the period: it is about what was asked in it.
        await decide(ledger, await park(ledger, requested_at=at), after=10 * 86_400)
    report = await measure(ledger, Period(since, until))
    assert ends(report.total) == (3, 3, 0, 0, 0, 0)
    assert [(each.start, each.held) for each in report.parts] == [
        (since, 2),
        (since + timedelta(days=1), 0),
        (since + timedelta(days=2), 1),
    ]
    before = await measure(ledger, Period(since - SECOND, since))
    after = await measure(ledger, Period(until, until + SECOND))
    assert (before.total.asked, after.total.asked) == (1, 1)
    assert (len(before.parts), before.held) == (1, 1)


async def test_what_is_decided_twice_counts_once(ledger: Ledger) -> None:
    approval = await park(ledger)
    await decide(ledger, approval, after=30, by="ana")
    again = decision(approval, "deny", approver="ben")
    assert (await ledger.approvals.decide(again, "token", (), "page"))[0] is Verdict.ALREADY_DECIDED
    report = await measure(ledger)
    assert ends(report.total) == (1, 1, 0, 0, 0, 0)
    assert {name: ends(each) for name, each in of_people(report).items()} == {"ana": (1, 1, 0, 0, 0, 0)}


async def test_of_two_decisions_on_one_approval_the_last_is_the_gates_and_each_its_persons(ledger: Ledger) -> None:
    approval = await park(ledger)
    await decide(ledger, approval, "deny", after=300, by="ben")
    await ledger.system.execute(
        "INSERT INTO decisions (decision_id, approval_id, request_id, tenant, approver, verdict, decided_at, key_id,"
        " body) SELECT 'dec_first', approval_id, request_id, tenant, 'ana', 'approve', decided_at - interval '4 min',"
        " key_id, body FROM decisions"
    )
    report = await measure(ledger)
    assert ends(report.total) == (1, 0, 1, 0, 0, 0)
    assert report.total.median_seconds == pytest.approx(300)
    assert {name: (each.approved, each.denied) for name, each in of_people(report).items()} == {
        "ana": (1, 0),
        "ben": (0, 1),
    }


async def test_what_became_void_was_approved_all_the_same(ledger: Ledger) -> None:
    approval = await park(ledger)
    await decide(ledger, approval, after=90)
    step = voided(approval.approval_id, "the order was refunded elsewhere", {})
    await ledger.calls.advance(approval.request_id, lambda _, __: step)
    total = (await measure(ledger)).total
    assert ends(total) == (1, 1, 0, 0, 0, 0)
    assert total.voided == 1
    # Until the decision, not until it became void.
    assert total.median_seconds == pytest.approx(90)
    assert of_people(await measure(ledger))["ana"].voided == 1


async def test_a_deadline_that_passes_during_a_pause_is_no_expiry(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.switches.PERMIT", timedelta(0))
    binding = new_binding()
    record = await Refund(25_000, available=50_000, binding=binding).admit(ledger)
    tenant = binding.tenant
    await ledger.switches.turn_off(tenant, SWITCH, by="olga", reason="incident", deadlines="pause")
    await ledger.system.execute("UPDATE switches SET off_at = off_at - interval '2 hours'")
    await ledger.system.execute("UPDATE approvals SET expires_at = now() - interval '1 hour'")
    paused = await measure(ledger, tenant=tenant)
    assert ends(paused.total) == (1, 0, 0, 0, 0, 1)
    assert paused.queue.waiting == 1
    await ledger.switches.turn_on(tenant, SWITCH, lambda whose, _: Reach(tenant=whose), by="olga", reason="over")
    # It has as long left as when the pause began.
    assert (await ledger.approvals.expire(record.request_id)).status == "pending_approval"
    assert ends((await measure(ledger, tenant=tenant)).total) == (1, 0, 0, 0, 0, 1)
    await ledger.system.execute("UPDATE approvals SET expires_at = now() - interval '1 s'")
    assert (await ledger.approvals.expire(record.request_id)).code is Code.APPROVAL_EXPIRED
    for _ in range(2):
        await ledger.approvals.expire(record.request_id)
    after = await measure(ledger, tenant=tenant)
    assert ends(after.total) == (1, 0, 0, 1, 0, 0)
    assert after.queue.waiting == 0


# People


async def test_haste_is_measured_from_the_persons_own_look(ledger: Ledger) -> None:
    approval = await park(ledger)
    needed = words_to_read(approval) * 60 / WORDS_PER_MINUTE
    assert await ledger.system.fetchval("SELECT words FROM approvals") == words_to_read(approval)
    await decide(ledger, approval, looked=needed - 0.01)
    for looked in (needed, needed + 30):
        await decide(ledger, await park(ledger), "deny", looked=looked)
    await decide(ledger, await park(ledger))
    await decide(ledger, await park(ledger), through="api", looked=0.1)
    await decide(ledger, await park(ledger), through="api")
    await decide(ledger, await park(ledger), through=None, by="ben")
    others_look = await park(ledger)
    await ledger.approvals.viewed(others_look, "ana")
    await decide(ledger, others_look, by="ben", looked=0.5)
    report = await measure(ledger)
    people = of_people(report)

    def said(each: Outcomes) -> tuple[int, ...]:
        return each.decided, each.timed, each.too_quick, each.unopened, each.through_api

    assert said(people["ana"]) == (6, 3, 1, 1, 2)
    assert said(people["ben"]) == (2, 1, 1, 1, 0)
    assert said(report.total) == (8, 4, 2, 2, 2)
    # ana opened what ben decided.
    assert (people["ana"].asked, people["ana"].by_others) == (7, 1)
    assert people["ana"].median_seconds == pytest.approx((needed - 0.01 + needed) / 2)
    assert people["ben"].median_seconds == pytest.approx(0.5)


async def test_who_only_looked_is_told_what_became_of_it(ledger: Ledger) -> None:
    looked = [await park(ledger) for _ in range(4)]
    looked.append(await park(ledger, expires_in=-SECOND))
    for approval in looked:
        await ledger.approvals.viewed(approval, "ana")
    await decide(ledger, looked[0], by="ben")
    await decide(ledger, looked[1], "deny", by="ben")
    await ledger.approvals.withdraw(looked[2].request_id, "support-bot")
    await ledger.approvals.expire(looked[4].request_id)
    ana = of_people(await measure(ledger))["ana"]
    assert ends(ana) == (5, 0, 0, 1, 1, 1)
    assert (ana.by_others, ana.rate, ana.median_seconds) == (2, None, None)


async def test_from_before_words_were_counted_nobody_is_called_hasty(ledger: Ledger) -> None:
    await decide(ledger, await park(ledger), looked=0.1)
    await ledger.system.execute("UPDATE approvals SET words = NULL")
    ana = of_people(await measure(ledger))["ana"]
    assert (ana.decided, ana.timed, ana.too_quick, ana.unopened) == (1, 0, 0, 0)


@pytest.mark.parametrize(
    ("groups", "named"),
    [(None, ["ana", "lea"]), (["finance"], ["ana"]), (["legal", "operator"], ["lea"]), ([], []), (["nobody"], [])],
)
async def test_people_are_named_to_their_own_group_alone(
    ledger: Ledger, groups: Sequence[str] | None, named: list[str]
) -> None:
    await decide(ledger, await park(ledger), by="ana")
    await decide(ledger, await park(ledger, approvers="legal"), by="lea")
    report = await measure(ledger, groups=groups)
    assert [each.person for each in report.approvers] == named
    assert report.total.approved == 2


# How much is asked


async def test_the_gated_share_is_of_all_decided_writes(ledger: Ledger) -> None:
    binding = new_binding()
    for amount in (1_000, 1_100, 25_000):
        await Refund(amount, available=50_000, binding=binding).admit(ledger)
    refused = await Refund(2_000, available=1_000, binding=binding).admit(ledger)
    assert refused.status == "refused"
    await park(ledger, tenant=binding.tenant, tool="lookup_orders")
    report = await measure(ledger, tenant=binding.tenant)
    assert (report.parts[-1].held, report.parts[-1].passed, report.parts[-1].refused) == (1, 2, 1)
    assert (report.held, report.decided) == (1, 4)


@pytest.fixture
async def in_another_zone(database: str) -> AsyncIterator[Ledger]:
    """A ledger whose sessions are in a zone that changes its clocks."""
    async with open_ledger(database) as first:
        name = await first.system.fetchval("SELECT current_database()")
        await first.system.execute(f"ALTER DATABASE {name} SET timezone = 'America/New_York'")
    async with open_ledger(database) as opened:
        yield opened


async def test_days_are_utcs_whatever_the_zone_of_the_session(in_another_zone: Ledger) -> None:
    # Clocks went back in New York on 1 November 2026.
    since = datetime(2026, 10, 30, tzinfo=UTC)
    for hour in (0, 47.99, 48, 71.99, 72):
        await park(in_another_zone, requested_at=since + timedelta(hours=hour))
    report = await measure(in_another_zone, Period(since, since + timedelta(days=5)))
    assert [each.held for each in report.parts] == [1, 1, 2, 1, 0]
    assert [each.start for each in report.parts] == [since + timedelta(days=n) for n in range(5)]


async def test_the_queries_find_their_rows_by_an_index(ledger: Ledger) -> None:
    names = await ledger.system.fetch("SELECT indexdef FROM pg_indexes WHERE tablename = 'approvals'")
    assert any("(tenant, requested_at)" in row["indexdef"] for row in names)
