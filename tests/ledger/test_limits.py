"""What is bounded in sum: counted exactly, by the database's clock alone, and given back when nothing came of it."""

import asyncio
import dataclasses
import gc
import json
import sys
import tracemalloc
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import ledger.admission
from activities import deciding, reconsidering
from activities.outcomes import after_attempt
from ledger.admission import AlreadyAdmitted, Reads, Usage, Window
from ledger.ledger import Ledger
from ledger.records import CallRecord
from policy.model import NOTHING_DONE
from schemas.codes import Code
from schemas.effects import Confirmed, Failed
from schemas.replies import Reply
from schemas.subjects import TENANT
from tests.ledger.conftest import NOON
from tests.ledger.policies import HOLD, small
from tests.ledger.refunds import CATALOG, POLICY, TOOL, Refund, advance, decide, exchange, new_binding, took
from tests.ledger.stopped_clock import StoppedClock
from tools.protocol import WriteTool

ROOT = Path(__file__).parents[2]
HOUR = timedelta(hours=1)
THREE_AN_HOUR = "limits: [{name: few, per: customer, window: 1h, max: 3}]"
ONE_A_RUN = "limits: [{name: one, per: run, max: 1}]"


Stopped = tuple[Ledger, StoppedClock]


# Windows


MINUTES = st.integers(0, 40 * 60_000_000)
EXACTLY = st.sampled_from([0, 1, 1_200_000_000, 3_599_999_999, 3_600_000_000, 3_600_000_001])


# Uses of a customer are counted one by one; those of a tool are added up by the minute.
@pytest.mark.parametrize("per", ["customer", "tool"])
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(gaps=st.lists(MINUTES | EXACTLY, min_size=4, max_size=14))
@example(gaps=[0, 0, 0, 3_599_999_999, 1, 0])
async def test_never_more_than_the_limit_in_any_hour_and_nobody_is_refused_below_it(
    stopped: Stopped, tmp_path: Path, per: str, gaps: list[int]
) -> None:
    ledger, clock = stopped
    policy, binding = small(tmp_path, THREE_AN_HOUR.replace("customer", per)), new_binding()
    now, went = NOON, list[datetime]()
    for n, gap in enumerate(gaps):
        now += timedelta(microseconds=gap)
        await clock.set(now)
        record = await Refund(100 + n, binding=binding, policy=policy).admit(ledger)
        before = [each for each in went if each > now - HOUR]
        assert (record.code is Code.IN_PROGRESS) == (len(before) < 3), (went, now)
        if record.code is Code.IN_PROGRESS:
            went.append(now)
        else:
            # The hour of the one that is in the way ends then, and not a second before.
            frees = before[-3] + HOUR - now
            assert record.reply().retry_after_seconds == int(frees.total_seconds()) + 1


async def test_midnight_begins_no_new_quota(stopped: Stopped, tmp_path: Path) -> None:
    ledger, clock = stopped
    policy, binding = small(tmp_path, THREE_AN_HOUR), new_binding()
    midnight = datetime(2026, 11, 30, tzinfo=UTC)
    for at, code in (
        (midnight - timedelta(milliseconds=100), Code.IN_PROGRESS),
        (midnight - timedelta(milliseconds=100), Code.IN_PROGRESS),
        (midnight + timedelta(milliseconds=100), Code.IN_PROGRESS),
        (midnight + timedelta(milliseconds=100), Code.RATE_LIMITED),
        (midnight + HOUR - timedelta(milliseconds=101), Code.RATE_LIMITED),
        (midnight + HOUR - timedelta(milliseconds=100), Code.IN_PROGRESS),
        (midnight + HOUR - timedelta(milliseconds=100), Code.IN_PROGRESS),
        (midnight + HOUR - timedelta(milliseconds=100), Code.RATE_LIMITED),
    ):
        await clock.set(at)
        assert (await Refund(100, binding=binding, policy=policy).admit(ledger)).code is code, at


async def test_a_process_whose_clock_is_ahead_refills_nothing(
    stopped: Stopped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ahead(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(days=400)

    for module in (deciding, ledger.admission):
        monkeypatch.setattr(module, "datetime", Ahead)
    monkeypatch.setattr("time.time", lambda: NOON.timestamp() + 400 * 86_400)
    own, clock = stopped
    policy, binding = small(tmp_path, THREE_AN_HOUR), new_binding()
    codes = [(await Refund(100 + n, binding=binding, policy=policy).admit(own)).code for n in range(4)]
    assert codes == [Code.IN_PROGRESS] * 3 + [Code.RATE_LIMITED]
    await clock.advance(HOUR)
    assert (await Refund(200, binding=binding, policy=policy).admit(own)).code is Code.IN_PROGRESS


async def test_money_is_said_to_be_there_again_when_enough_of_it_is(stopped: Stopped, tmp_path: Path) -> None:
    """The oldest may be too small for that to make room."""
    ledger, clock = stopped
    limit = "limits: [{name: cents, per: customer, window: 1h, of: amount, max: 1000}]"
    policy, binding = small(tmp_path, limit), new_binding()
    for amount in (100, 600, 300):
        assert (await Refund(amount, binding=binding, policy=policy).admit(ledger)).code is Code.IN_PROGRESS
        await clock.advance(timedelta(minutes=10))

    async def refused(amount: int) -> int | None:
        record = await Refund(amount, binding=binding, policy=policy).admit(ledger)
        assert record.code is Code.RATE_LIMITED
        return record.reply().retry_after_seconds

    assert [await refused(amount) for amount in (100, 101, 700, 701, 1_000)] == [1_801, 2_401, 2_401, 3_001, 3_001]
    assert await refused(1_001) is None, "it never fits"
    await clock.advance(timedelta(seconds=2_401))
    assert (await Refund(700, binding=binding, policy=policy).admit(ledger)).code is Code.IN_PROGRESS


# Whatever runs at once


async def test_of_200_calls_of_four_processes_at_once_exactly_five_go(database: str) -> None:
    binding = new_binding()
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.ledger.racing", database, binding.tenant, binding.run_id, str(first), "50"),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        for first in (100, 200, 300, 400)
    ]
    printed = await asyncio.gather(*(process.communicate() for process in processes))
    ended = sum((Counter[str](json.loads(output)) for output, _ in printed), Counter[str]())
    assert ended == {Code.IN_PROGRESS: 5, Code.RATE_LIMITED: 195}


async def test_calls_of_every_tool_count_for_the_tenant(ledger: Ledger, tmp_path: Path) -> None:
    policy = small(tmp_path, "limits: [{name: three, per: tenant, max: 3}]")
    binding = new_binding()
    cancel = CATALOG.get("cancel_order")
    assert cancel is not None
    made = (await Refund(100, binding=binding, policy=policy).admit(ledger)).details.decision
    assert made is not None
    for n in range(2):
        call = Refund(100, binding=binding).proposed.call
        call = call.model_copy(update={"tool": "cancel_order", "workflow_id": f"call/cancelled/{n}"})
        windows = [Window("", TENANT, 0)]

        admitted = took(call, made, {TENANT: 0})
        await ledger.of(binding.tenant).admissions.admit(call, windows, None, NOON, lambda _, made=admitted: made)
    assert (await Refund(101, binding=binding, policy=policy).admit(ledger)).code is Code.RATE_LIMITED
    assert (await Refund(100, policy=policy).admit(ledger)).code is Code.IN_PROGRESS, "another tenant's"


@pytest.mark.parametrize(
    ("of", "refunds", "cancelled"), [("count", True, True), ("amount", True, False)], ids=["calls", "money"]
)
def test_what_takes_no_money_is_not_kept_waiting_by_a_sum_of_it(
    tmp_path: Path, of: str, refunds: bool, cancelled: bool
) -> None:
    policy = small(tmp_path, f"limits: [{{name: all, per: tenant, of: {of}, max: 3}}]")
    proposed = Refund(100).proposed

    cancel = CATALOG.get("cancel_order")
    assert cancel is not None
    assert isinstance(cancel.tool, WriteTool)
    without = dataclasses.replace(proposed, tool=cancel.tool)
    assert (TENANT in {each.subject for each in deciding.windows_for(policy.tool(TOOL), proposed)}) is refunds
    assert (
        TENANT in {each.subject for each in deciding.windows_for(policy.tool("cancel_order"), without)}
    ) is cancelled


# What is given back


async def _end(own: Ledger, record: CallRecord, ending: str) -> None:
    effect = record.details.effect
    if ending in ("failed", "executed"):
        assert effect is not None
        failed = Failed(code=Code.REMOTE_REFUSED, exchange=exchange())
        outcome = failed if ending == "failed" else Confirmed(remote_id="re_1", result={}, exchange=exchange())
        await advance(own, record, after_attempt(effect, outcome, done="it", operation="refund"))
        return
    approvals = own.of(record.tenant).approvals
    if ending == "denied":
        approval = await approvals.get(record.tenant, record.approval_id or "")
        assert approval is not None
        await decide(own, approval, verdict="deny")
    elif ending == "expired":
        await own.system.execute("UPDATE approvals SET expires_at = now() - interval '1 second'")
        await approvals.expire(record.request_id)
    elif ending == "withdrawn":
        await approvals.withdraw(record.request_id, "support-bot")
    elif ending == "stopped":
        await advance(own, record, reconsidering.stopped("all", record.approval_id))
    else:
        await advance(own, record, reconsidering.voided(record.approval_id, "the facts have changed", {}))


@pytest.mark.parametrize("ending", ["failed", "denied", "expired", "withdrawn", "stopped", "voided", "executed"])
async def test_only_what_came_to_something_stays_counted(ledger: Ledger, tmp_path: Path, ending: str) -> None:
    policy, binding = small(tmp_path, ONE_A_RUN, HOLD), new_binding()
    amount = 500 if ending in ("failed", "executed") else 5_000
    record = await Refund(amount, binding=binding, policy=policy).admit(ledger)
    assert record.code in (Code.IN_PROGRESS, Code.PENDING_APPROVAL)
    assert (await Refund(501, binding=binding, policy=policy).admit(ledger)).code is Code.RATE_LIMITED
    await _end(ledger, record, ending)
    after = await Refund(502, binding=binding, policy=policy).admit(ledger)
    assert after.code is (Code.RATE_LIMITED if ending == "executed" else Code.IN_PROGRESS)


async def test_a_refusal_a_dry_run_and_a_repeat_take_nothing(ledger: Ledger, tmp_path: Path) -> None:
    policy, binding = small(tmp_path, ONE_A_RUN), new_binding()
    admissions = ledger.of(binding.tenant).admissions
    assert (await Refund(6_000, binding=binding, available=5_000, policy=policy).admit(ledger)).status == "refused"
    proposed = Refund(100, binding=binding).proposed
    windows = deciding.windows_for(policy.tool(TOOL), proposed)
    for _ in range(2):
        reads = await admissions.preview(proposed.call, windows, None, NOON)
        assert reads.usage["one"] == Usage(0, 0, None)
    first = Refund(100, binding=binding, policy=policy)
    assert (await first.admit(ledger)).code is Code.IN_PROGRESS
    for _ in range(2):
        with pytest.raises(AlreadyAdmitted):
            await first.admit(ledger)
    counted = await ledger.system.fetchval("SELECT count(*) FROM uses WHERE subject = $1", f"run:{binding.run_id}")
    assert counted == 1


# Splitting


async def test_nine_refunds_under_the_threshold_are_not_nine_times_the_threshold(ledger: Ledger) -> None:
    """On one order, of one customer, by one agent, in as many runs as it takes."""
    base = new_binding()
    statuses: list[str] = []
    for n in range(9):
        binding = new_binding(tenant=base.tenant, customer_id=base.customer_id)
        record = await Refund(4_999 - n, "pay_1", binding, available=50_000).admit(ledger)
        statuses.append(record.status)
    assert statuses == ["in_progress"] * 4 + ["pending_approval"] * 5


@pytest.mark.parametrize(
    ("amount", "every", "free", "rule", "same"),
    [
        (4_999, timedelta(hours=25), 4, "order_total", ("order_id", "customer_id")),
        (4_999, timedelta(hours=25), 12, "customer_30d", ("customer_id",)),
        (4_999, timedelta(hours=5), 4, "customer_24h", ("customer_id",)),
        (19_999, timedelta(seconds=1), 12, "agent_1h", ()),
        (19_999, timedelta(minutes=7), 50, "agent_24h", ()),
        (4_999, timedelta(minutes=1), 4, "agent_same_1h", ("amount",)),
    ],
    ids=["order", "customer's month", "customer's day", "agent's hour", "agent's day", "agent's hour, evenly"],
)
async def test_however_it_is_split_a_person_is_asked_in_the_end(
    stopped: Stopped, amount: int, every: timedelta, free: int, rule: str, same: tuple[str, ...]
) -> None:
    ledger, clock = stopped
    base = new_binding()
    kept = {"customer_id": base.customer_id} if "customer_id" in same else {}
    asked: list[str] = []
    for n in range(free + 3):
        order = "ord_8f2b91a04c7d" if "order_id" in same else f"ord_{n:012x}"
        binding = new_binding(tenant=base.tenant, **kept)
        cents = amount if "amount" in same else amount - n
        record = await Refund(cents, binding=binding, available=50_000, order_id=order).admit(ledger)
        assert record.details.decision is not None
        asked.append(record.details.decision.rule)
        await clock.advance(every)
    assert asked == ["otherwise"] * free + [rule] * 3


async def test_what_a_person_was_asked_about_is_not_what_the_agent_gave_of_itself(stopped: Stopped) -> None:
    ledger, clock = stopped
    base = new_binding()
    for n in range(12):
        large = Refund(40_000, binding=new_binding(tenant=base.tenant), available=50_000, order_id=f"ord_{n:012x}")
        assert (await large.admit(ledger)).status == "pending_approval"
        await clock.advance(timedelta(seconds=1))
    assert (await Refund(100, binding=new_binding(tenant=base.tenant)).admit(ledger)).status == "in_progress"


async def test_no_number_of_approvals_gives_one_customer_everything(stopped: Stopped) -> None:
    ledger, clock = stopped
    base, replies = new_binding(), list[Reply]()
    for n in range(7):
        binding = new_binding(tenant=base.tenant, customer_id=base.customer_id)
        refund = Refund(50_000 - n, binding=binding, available=50_000, order_id=f"ord_{n:012x}")
        replies.append((await refund.admit(ledger)).reply())
        await clock.advance(timedelta(minutes=1))
    assert [reply.code for reply in replies] == [Code.PENDING_APPROVAL] * 5 + [Code.RATE_LIMITED] * 2
    last = replies[-1]
    assert last.message.startswith("A limit was reached: the amount per customer and day. There is room again in ")
    assert (last.action, last.attempts_remaining) == ("stop_and_report", 0)
    assert last.retry_after_seconds == 86_400 - 6 * 60 + 1


# Before the last attempt


async def test_a_run_is_told_before_its_last_attempt(ledger: Ledger) -> None:
    binding, replies = new_binding(), list[Reply]()
    for n in range(5):
        record = await Refund(100 + n, binding=binding).admit(ledger)
        await _end(ledger, record, "executed")
        replies.append((await ledger.calls.read(record.request_id)).reply())
    assert [reply.attempts_remaining for reply in replies] == [None, None, 2, 1, 0]
    assert replies[1].message == "Done: it."
    assert replies[4].message == "Done: it. Calls of this tool that this run may still make: 0."


async def test_a_parked_call_tells_it_too_and_of_no_other_principal(ledger: Ledger, tmp_path: Path) -> None:
    others = "limits: [{name: all, per: tool, window: 1h, max: 2}, {name: own, per: run, max: 3}]"
    policy, binding = small(tmp_path, others, HOLD), new_binding()
    reply = (await Refund(5_000, binding=binding, policy=policy).admit(ledger)).reply()
    assert (reply.code, reply.attempts_remaining) == (Code.PENDING_APPROVAL, 2)
    assert reply.message.endswith("Calls of this tool that this run may still make: 2.")
    without = small(tmp_path, "limits: [{name: all, per: tool, max: 2}]")
    assert (await Refund(500, policy=without).admit(ledger)).reply().attempts_remaining is None


# Memory


def test_nothing_is_kept_of_a_principal() -> None:
    def admit(n: int) -> None:
        proposed = Refund(100, "pay_1", new_binding(customer_id=f"cus_{n}", agent_id=f"agent-{n}")).proposed
        windows = deciding.windows_for(POLICY.tool(TOOL), proposed)
        usage = {window.name: Usage(0, 0, None) for window in windows}
        admitted = deciding.admit(POLICY, proposed, NOTHING_DONE, windows, Reads(NOON, 0, usage), inline=True)
        assert admitted.events[-1].type == "effect.intended"

    for n in range(200):
        admit(n)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for n in range(3_000):
            admit(n)
        gc.collect()  # which also empties the interpreter's free lists
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 3_000 * 20, "20 bytes are less than any trace of a principal"


async def test_as_many_keys_as_fit_are_kept_of_customers(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.data_keys._KEPT", 4)
    base, records = new_binding(), list[CallRecord]()
    for _ in range(8):
        records.append(await Refund(100, binding=new_binding(tenant=base.tenant)).admit(ledger))
    for kept in (ledger.keys._by_subject, ledger.keys._by_id):  # pyright: ignore[reportPrivateUsage]
        assert len(kept) == 4
    for record in records:
        assert (await ledger.calls.read(record.request_id)).details.call.request_id == record.request_id
