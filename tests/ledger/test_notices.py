"""The outbox: what is to be told is written with what it tells of, goes to each channel once, and is never lost."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from activities.outcomes import needs_review
from ledger.approvals import Verdict
from ledger.ledger import Ledger
from ledger.notices import Due, Notice
from ledger.records import CallRecord
from schemas.decisions import Approval
from schemas.notices import Topic
from tests.api.parked import confirm, lose_answer
from tests.ledger import refunds
from tests.ledger.refunds import POLICY, TOOL, Refund, advance, decide, new_binding, open_ledger

TENANT = "acme"
CHANNELS = ("mail", "chat")
_HOLDS = tuple(replace(hold, escalates_to=None) for hold in POLICY.tools[TOOL].holds)
NOBODY_ABOVE = replace(POLICY, tools={**POLICY.tools, TOOL: replace(POLICY.tools[TOOL], holds=_HOLDS)})


async def parked(ledger: Ledger, **changes: Any) -> Approval:
    """A refund that waits for a group above which there is none."""
    return await refunds.parked(ledger, **{"policy": NOBODY_ABOVE, **changes})


async def topics(ledger: Ledger, state: str = "due") -> list[str]:
    rows = await ledger.system.fetch("SELECT topic FROM notices WHERE state = $1 ORDER BY at, topic", state)
    return [row["topic"] for row in rows]


async def routed(ledger: Ledger, *channels: str) -> dict[tuple[Topic, str], Notice]:
    """Everything that is due, sent on its way; a channel that an alert is about is left out."""

    def decide(due: Due) -> Sequence[str]:
        return [each for each in channels if each != due.alert_channel]

    while await ledger.notices.route(decide):
        pass
    sending = await ledger.notices.recent(tenant=None, state="sending", limit=100)
    return {(each.topic, each.channel): each for each in sending}


async def executed(ledger: Ledger, amount: int = 4_000) -> CallRecord:
    record = await Refund(amount, binding=new_binding(tenant=TENANT)).admit(ledger)
    await lose_answer(ledger, record.request_id)
    await confirm(ledger, record.request_id)
    return await ledger.calls.read(record.request_id)


async def test_a_request_for_approval_is_told_and_warned_of(ledger: Ledger) -> None:
    approval = await parked(ledger, binding=new_binding(tenant=TENANT))
    found = await routed(ledger, *CHANNELS)
    assert set(found) == {(topic, over) for topic in ("approval_requested", "approval_expiring") for over in CHANNELS}
    assert len({each.notice_id for each in found.values()}) == 4
    one = found["approval_requested", "mail"]
    assert (one.tenant, one.approval_id, one.request_id) == (TENANT, approval.approval_id, approval.request_id)
    assert (one.tool, one.approvers, one.at) == ("issue_refund", "finance", approval.requested_at)


async def test_the_group_above_is_told_when_it_may_decide_as_well(ledger: Ledger) -> None:
    approval = await refunds.parked(ledger, binding=new_binding(tenant=TENANT))
    assert approval.escalates_at is not None
    assert {each.approvers for each in (await routed(ledger, "mail")).values()} == {"finance"}
    due = await ledger.system.fetchval("SELECT due_at FROM notices WHERE state = 'due'")
    assert due == approval.escalates_at
    await ledger.system.execute("UPDATE notices SET due_at = now() WHERE state = 'due'")
    await routed(ledger, "mail")
    await ledger.system.execute("DELETE FROM notices WHERE approvers = 'finance'")
    assert [(each.topic, each.approvers) for each in (await routed(ledger, "mail")).values()] == [
        ("approval_requested", "leads")
    ]


async def test_it_names_ids_and_holds_nothing_else_of_a_call(ledger: Ledger) -> None:
    await parked(ledger)
    (row, _) = await ledger.system.fetch("SELECT * FROM notices")
    said = {name for name, value in row.items() if value is not None}
    assert said == {
        *("notice_id", "tenant", "topic", "request_id", "approval_id", "tool", "approvers"),
        *("at", "due_at", "state", "attempts"),
    }


async def test_what_is_rolled_back_is_not_told(ledger: Ledger) -> None:
    refund = Refund(25_000, available=50_000)
    await refund.admit(ledger)
    before = await topics(ledger)
    again = Refund(25_000, available=50_000, binding=refund.binding, key=refund.key)
    with pytest.raises(Exception, match=refund.request_id):
        await again.admit(ledger)
    assert await topics(ledger) == before


async def test_expiry_is_told_and_a_decision_is_not(ledger: Ledger) -> None:
    expired, decided = await parked(ledger), await parked(ledger)
    await routed(ledger)
    await decide(ledger, decided, verdict="deny")
    assert await topics(ledger) == []
    await ledger.system.execute("UPDATE approvals SET expires_at = now() - interval '1 second'")
    await ledger.approvals.expire(expired.request_id)
    await ledger.approvals.expire(expired.request_id)
    assert await topics(ledger) == ["approval_expired"]


async def test_people_are_warned_before_a_deadline_that_was_moved(ledger: Ledger) -> None:
    approval = await parked(ledger)
    approvals = ledger.of(approval.tenant).approvals

    async def extend(hours: int) -> None:
        until = approval.expires_at + timedelta(hours=hours)
        assert await approvals.extend(approval, until, by="ana", reason="why") is Verdict.RECORDED

    await extend(1)
    assert (await topics(ledger)).count("approval_expiring") == 1, "it was due already"
    before = (await routed(ledger, *CHANNELS))["approval_expiring", "mail"]
    told = (await routed(ledger))["approval_expiring", "chat"]
    await ledger.notices.close(told.notice_id, "delivered")
    await extend(2)
    assert await topics(ledger) == ["approval_expiring"]
    overtaken, delivered = await ledger.notices.read(before.notice_id), await ledger.notices.read(told.notice_id)
    assert overtaken is not None
    assert delivered is not None
    assert (overtaken.state, delivered.state) == ("moot", "delivered")
    again = (await routed(ledger, "mail"))["approval_expiring", "mail"]
    assert (again.approval_id, again.approvers) == (approval.approval_id, "finance")


async def test_a_call_that_ran_under_notify_is_told_once(ledger: Ledger) -> None:
    record = await executed(ledger)
    assert (record.status, record.verdict) == ("executed", "notify")
    (found,) = (await routed(ledger, "mail")).values()
    assert (found.topic, found.request_id, found.approval_id) == ("notice", record.request_id, None)


async def test_an_alert_is_told_with_its_call(ledger: Ledger) -> None:
    record = await Refund(4_000, binding=new_binding(tenant=TENANT)).admit(ledger)
    await lose_answer(ledger, record.request_id)
    record = await ledger.calls.read(record.request_id)
    assert record.details.effect is not None
    await advance(ledger, record, needs_review(record.details.effect, "absent"))
    (found,) = (await routed(ledger, "mail")).values()
    assert found.topic == "alert"
    assert found.alert_id is not None
    about = await ledger.of(TENANT).notices.alert(TENANT, found.alert_id)
    assert about is not None
    assert (about.kind, about.request_id) == ("needs_review", record.request_id)
    assert await ledger.of("globex").notices.alert("globex", found.alert_id) is None


async def test_what_goes_nowhere_is_gone_and_what_is_later_stays(ledger: Ledger) -> None:
    await parked(ledger)
    later = datetime.now(UTC) + timedelta(hours=1)

    def decide(due: Due) -> datetime | Sequence[str]:
        assert due.approval_status == "open"
        return later if due.topic == "approval_expiring" else ()

    assert await ledger.notices.route(decide) == 2
    assert await ledger.notices.route(decide) == 0, "nothing is due before then"
    assert await ledger.system.fetchval("SELECT due_at FROM notices") == later


async def test_two_couriers_send_it_on_its_way_once(ledger: Ledger, database: str) -> None:
    for _ in range(20):
        await parked(ledger)
    async with open_ledger(database) as other:
        await asyncio.gather(*(each.notices.route(lambda _: CHANNELS) for each in (ledger, other) * 4))
    assert await ledger.system.fetchval("SELECT count(*) FROM notices") == 20 * 2 * len(CHANNELS)
    assert await topics(ledger) == []


async def test_it_is_taken_up_until_it_is_closed(ledger: Ledger) -> None:
    await parked(ledger)
    one, two = [each.notice_id for each in (await routed(ledger, "mail")).values()]
    assert sorted(await ledger.notices.unstarted(60)) == sorted([one, two])
    await ledger.notices.started(one)
    assert await ledger.notices.unstarted(60) == [two]
    assert sorted(await ledger.notices.unstarted(0)) == sorted([one, two]), "so long ago that it may be lost"
    await ledger.notices.failed(one, "timeout")
    await ledger.notices.close(one, "delivered")
    await ledger.notices.close(two, "moot")
    closed = await ledger.notices.read(one)
    assert closed is not None
    assert (closed.state, closed.attempts, closed.problem) == ("delivered", 2, None)
    await ledger.notices.failed(one, "timeout")
    await ledger.notices.give_up(one)
    assert (await ledger.notices.read(one)) == closed, "what was told stays told"
    assert await ledger.notices.unstarted(0) == []
    assert await ledger.notices.prune(1) == 0
    await ledger.system.execute("UPDATE notices SET closed_at = now() - interval '2 days'")
    assert await ledger.notices.prune(1) == 2


async def test_what_nobody_took_alerts_operators_once_a_channel_over_the_others(ledger: Ledger) -> None:
    for _ in range(3):
        await parked(ledger, binding=new_binding(tenant=TENANT))
    lost = list((await routed(ledger, "mail")).values())
    waiting = [each.notice_id for each in await ledger.notices.recent(tenant=TENANT, state="sending", limit=100)]
    for notice_id in waiting:
        await ledger.notices.failed(notice_id, "connect_failed")
        await ledger.notices.give_up(notice_id)
        await ledger.notices.give_up(notice_id)
    own = ledger.of(TENANT)
    (alert,) = await own.alerts.open(TENANT, 10)
    assert (alert.kind, alert.channel, alert.request_id, alert.tool) == ("notice_undelivered", "mail", None, None)
    assert len(await own.notices.undelivered(TENANT, 100)) == len(waiting) == 6
    assert await ledger.of("globex").notices.undelivered("globex", 100) == []
    (told,) = (await routed(ledger, "mail", "chat")).values()
    assert (told.topic, told.channel) == ("alert", "chat")
    await ledger.notices.give_up(told.notice_id)
    assert len(await own.alerts.open(TENANT, 10)) == 1, "that nobody took the alert is no other alert"
    await own.alerts.see(TENANT, alert.alert_id, "olga")
    assert await own.notices.retry(lost[0].notice_id, "globex") is False
    assert await own.notices.retry(lost[0].notice_id, TENANT) is True
    assert await own.notices.retry(lost[0].notice_id, TENANT) is False
    assert await ledger.notices.unstarted(60) == [lost[0].notice_id]
    await ledger.notices.give_up(lost[0].notice_id)
    assert len(await own.alerts.open(TENANT, 10)) == 1, "an alert that was seen to is followed by another"


async def test_a_days_digest_is_sent_once_whoever_asks(ledger: Ledger, database: str) -> None:
    await parked(ledger, binding=new_binding(tenant=TENANT))
    await routed(ledger)
    assert await ledger.notices.groups() == [(TENANT, "finance")]
    digests = [(TENANT, "finance", each) for each in CHANNELS]
    day = date(2026, 11, 30)
    async with open_ledger(database) as other:
        await asyncio.gather(*(each.notices.add_digests(digests, day) for each in (ledger, other) * 5))
    assert await topics(ledger, "sending") == ["digest", "digest"]
    await ledger.notices.close((await ledger.notices.unstarted(0))[0], "delivered")
    await ledger.notices.add_digests(digests, day)
    await ledger.notices.add_digests(digests, day + timedelta(days=1))
    assert await ledger.system.fetchval("SELECT count(*) FROM notices") == 4


async def test_what_a_digest_says(ledger: Ledger) -> None:
    def binding() -> Any:
        return new_binding(tenant=TENANT)

    approvals = [await parked(ledger, binding=binding()) for _ in range(6)]
    await parked(ledger)
    for approval, verdict in zip(approvals, ("approve", "approve", "deny"), strict=False):
        await decide(ledger, approval, verdict=verdict)
    await ledger.system.execute(
        "UPDATE approvals SET expires_at = now() - interval '1 second' WHERE approval_id = $1", approvals[3].approval_id
    )
    await ledger.approvals.expire(approvals[3].request_id)
    found = await ledger.of(TENANT).notices.digest(TENANT, "finance", datetime.now(UTC))
    assert (found.waiting, found.approved, found.denied, found.expired) == (2, 2, 1, 1)
    assert found.oldest == approvals[4].requested_at
    assert found.next_deadline == approvals[4].expires_at
    later = await ledger.of(TENANT).notices.digest(TENANT, "finance", datetime.now(UTC) + timedelta(days=2))
    assert (later.waiting, later.approved, later.denied, later.expired) == (2, 0, 0, 0)
    assert (await ledger.of(TENANT).notices.digest(TENANT, "legal", datetime.now(UTC))).waiting == 0


async def test_a_notice_has_a_channel_or_is_due(ledger: Ledger) -> None:
    await parked(ledger)
    with pytest.raises(asyncpg.CheckViolationError):
        await ledger.system.execute("UPDATE notices SET state = 'sending'")
