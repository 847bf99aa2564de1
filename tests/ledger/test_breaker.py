"""The breaker turns a switch off when its count is reached; and no more calls wait for people than may."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from activities import deciding, reconsidering
from activities.outcomes import after_attempt
from ledger.ledger import Ledger
from ledger.records import CallRecord
from ledger.switches import Reach, stream_of
from policy.model import NOTHING_DONE, Policy
from schemas.codes import Code
from schemas.effects import Failed
from schemas.events import BreakerTripped, SwitchChanged
from tests.ledger.policies import HOLD, small
from tests.ledger.refunds import TOOL, Refund, advance, decide, exchange, new_binding, open_ledger

SWITCH = "class:money_movement"
THREE = f'breaker: {{window: 1h, max: 3, trips: "{SWITCH}"}}'


class Shop:
    """A tenant whose agents send refunds, each of another run and customer."""

    def __init__(self, ledger: Ledger, policy: Policy) -> None:
        self.ledger, self.policy = ledger, policy
        self.tenant = new_binding().tenant
        self._sent = 0

    def refund(self, amount: int = 100, agent_id: str = "support-bot") -> Refund:
        self._sent += 1
        binding = new_binding(tenant=self.tenant, agent_id=agent_id)
        return Refund(amount + self._sent, binding=binding, policy=self.policy)

    async def send(self, amount: int = 100, agent_id: str = "support-bot") -> CallRecord:
        return await self.refund(amount, agent_id).admit(self.ledger)

    async def codes(self, count: int) -> list[Code]:
        return [(await self.send()).code for _ in range(count)]

    async def turn_on(self) -> None:
        reach = Reach(tenant=self.tenant)
        assert await self.ledger.switches.turn_on(
            self.tenant, SWITCH, lambda *_: reach, by="olga", reason="it was a sale"
        )


@pytest.fixture
def shop(ledger: Ledger, tmp_path: Path) -> Shop:
    return Shop(ledger, small(tmp_path, THREE, HOLD))


RUN, OFF = Code.IN_PROGRESS, Code.CAPABILITY_DISABLED


async def test_it_turns_its_switch_off_and_says_so(shop: Shop) -> None:
    assert await shop.codes(3) == [RUN] * 3
    record = await shop.send()
    reply = record.reply()
    assert (reply.code, reply.action, reply.status) == (OFF, "stop_and_report", "refused")
    (off,) = await shop.ledger.switches.off(shop.tenant)
    assert (off.tenant, off.name, off.off_by) == (shop.tenant, SWITCH, "breaker")
    assert off.reason == "3 calls of issue_refund within 1h, and the policy lets 3 run in 1h"
    events = [event for _, event in await shop.ledger.calls.events(record.request_id)]
    assert [event.type for event in events] == ["call.proposed", "call.decided", "breaker.tripped", "call.settled"]
    tripped = events[2]
    assert isinstance(tripped, BreakerTripped)
    assert (tripped.switch, tripped.tool, tripped.max, tripped.window_seconds) == (SWITCH, TOOL, 3, 3_600)
    assert await shop.ledger.alerts.of(record.request_id) == ["breaker_tripped"]
    assert [each.request_id for each in await shop.ledger.of(shop.tenant).alerts.open(shop.tenant, 10)] == [
        record.request_id
    ]
    ((_, changed),) = await shop.ledger.calls.events(stream_of(shop.tenant))
    assert isinstance(changed, SwitchChanged)
    assert (changed.switch, changed.off, changed.by, changed.reason) == (SWITCH, True, "breaker", off.reason)


async def test_every_process_and_every_tool_of_the_class_reads_it_at_once(shop: Shop, database: str) -> None:
    await shop.codes(4)
    async with open_ledger(database) as other:
        record = await shop.refund().admit(other)
    assert record.details.decision is not None
    assert (record.code, record.details.decision.rule) == (OFF, "switch")
    names = [SWITCH, "tool:another"]
    assert await shop.ledger.of(shop.tenant).permits.first_off(shop.tenant, names) == SWITCH
    assert (await Refund(100, policy=shop.policy).admit(shop.ledger)).code is RUN, "another tenant's"


async def test_it_stays_off_until_an_operator_turns_it_on_and_counts_anew_from_then(shop: Shop) -> None:
    await shop.codes(4)
    # Neither calls that are sent to see whether it works again nor time change that.
    assert await shop.codes(3) == [OFF] * 3
    await shop.ledger.system.execute("UPDATE uses SET at = at - $1::interval", timedelta(hours=2))
    assert await shop.codes(1) == [OFF]
    await shop.ledger.system.execute("UPDATE uses SET at = at + $1::interval", timedelta(hours=2))
    await shop.turn_on()
    assert await shop.codes(5) == [RUN] * 3 + [OFF] * 2
    assert await shop.ledger.system.fetchval("SELECT count(*) FROM alerts") == 2
    await shop.turn_on()
    assert await shop.codes(4) == [RUN] * 3 + [OFF]


async def test_what_was_turned_off_by_hand_is_no_amnesty(shop: Shop) -> None:
    """An operator who turned it on again after the breaker has looked at those calls; here nobody has."""
    await shop.codes(3)
    await shop.ledger.switches.turn_off(shop.tenant, SWITCH, by="olga", reason="an exercise")
    await shop.turn_on()
    assert await shop.codes(1) == [OFF]


async def test_it_counts_what_holds_or_took_something(shop: Shop) -> None:
    for _ in range(3):
        record = await shop.send()
        assert record.details.effect is not None
        failed = Failed(code=Code.REMOTE_REFUSED, exchange=exchange())
        await advance(shop.ledger, record, after_attempt(record.details.effect, failed, done="it", operation="refund"))
    assert (await shop.send(20_000)).code is Code.REFUND_EXCEEDS_PAID
    parked = await shop.send(5_000)
    assert parked.code is Code.PENDING_APPROVAL
    assert await shop.codes(3) == [RUN, RUN, OFF]


async def test_what_was_approved_before_it_tripped_does_not_run_after(shop: Shop) -> None:
    record = await shop.send(5_000)
    await shop.codes(3)
    own = shop.ledger.of(shop.tenant)
    approval = await own.approvals.get(shop.tenant, record.approval_id or "")
    assert approval is not None
    await decide(shop.ledger, approval)
    call = record.details.call
    after, changed = await own.admissions.intend(
        call,
        None,
        record.created_at,
        lambda current, reads: reconsidering.stopped(reads.switched_off or "", current.approval_id),
        [SWITCH],
    )
    assert (changed, after.code) == (True, OFF)


async def test_whatever_runs_at_once_exactly_as_many_go_and_it_trips_once(shop: Shop, database: str) -> None:
    async with open_ledger(database) as other:
        records = await asyncio.gather(*(shop.refund().admit(each) for each in (shop.ledger, other) * 20))
    assert Counter(record.code for record in records) == {RUN: 3, OFF: 37}
    tripped = "SELECT count(*) FROM events WHERE type = 'breaker.tripped'"
    assert await shop.ledger.system.fetchval(tripped) == 1
    assert await shop.ledger.system.fetchval("SELECT count(*) FROM switches") == 1


async def test_a_dry_run_trips_nothing(shop: Shop) -> None:
    await shop.codes(3)
    proposed = shop.refund().proposed
    tool = shop.policy.tool(TOOL)
    windows = deciding.windows_for(tool, proposed)
    reads = await shop.ledger.of(shop.tenant).admissions.preview(proposed.call, windows, None, datetime.now(UTC))
    decision = deciding.evaluate(shop.policy, proposed, NOTHING_DONE, *deciding.counted(tool, reads), reads.reserved)
    assert (decision.verdict, decision.rule, decision.code) == ("refuse", "breaker", OFF)
    assert await shop.ledger.switches.off(shop.tenant) == []


# Room for what waits


@pytest.fixture
def queue(ledger: Ledger, tmp_path: Path) -> Shop:
    return Shop(ledger, small(tmp_path, HOLD, defaults="parked: {per_agent: 3, per_tenant: 5}"))


async def test_what_would_wait_for_nobody_is_refused_not_approved(queue: Shop) -> None:
    for _ in range(3):
        assert (await queue.send(5_000)).code is Code.PENDING_APPROVAL
    record = await queue.send(5_000)
    reply = record.reply()
    assert (reply.code, reply.action, reply.attempts_remaining) == (Code.RATE_LIMITED, "stop_and_report", 0)
    assert reply.message == (
        "A limit was reached: a person would have to approve this, and as many calls of this agent as may wait for a "
        "person do so already. Nothing was done, and it does not wait for anyone. End your turn and hand over to a "
        "person."
    )
    assert record.details.decision is not None
    assert record.details.decision.rule == "parked_per_agent"
    assert (await queue.send(500)).code is RUN, "what needs nobody goes on"
    others = [(await queue.send(5_000, f"agent-{n}")) for n in range(3)]
    assert [each.code for each in others] == [Code.PENDING_APPROVAL] * 2 + [Code.RATE_LIMITED]
    decision = others[2].details.decision
    assert decision is not None
    assert decision.rule == "parked_per_tenant"
    assert (await Refund(5_000, policy=queue.policy).admit(queue.ledger)).code is Code.PENDING_APPROVAL


@pytest.mark.parametrize("verdict", ["approve", "deny"])
async def test_a_decision_makes_room(queue: Shop, verdict: str) -> None:
    first, *_ = [await queue.send(5_000) for _ in range(3)]
    approval = await queue.ledger.of(queue.tenant).approvals.get(queue.tenant, first.approval_id or "")
    assert approval is not None
    await decide(queue.ledger, approval, verdict=verdict)
    assert [(await queue.send(5_000)).code for _ in range(2)] == [Code.PENDING_APPROVAL, Code.RATE_LIMITED]


async def test_the_queue_is_counted_exactly_whatever_runs_at_once(queue: Shop, database: str) -> None:
    agents = ("support-bot", "night-bot")
    async with open_ledger(database) as other:
        calls = [queue.refund(5_000, agents[n % 2]) for n in range(40)]
        records = await asyncio.gather(*(each.admit((queue.ledger, other)[n % 2]) for n, each in enumerate(calls)))
    parked = Counter(record.agent_id for record in records if record.code is Code.PENDING_APPROVAL)
    assert sorted(parked.values()) == [2, 3]
    assert Counter(record.code for record in records) == {Code.PENDING_APPROVAL: 5, Code.RATE_LIMITED: 35}
    assert await queue.ledger.system.fetchval("SELECT count(*) FROM uses WHERE state <> 'held'") == 0
