"""Admission under concurrency: what is finite is never taken twice, whatever runs at the same time."""

import asyncio
import dataclasses
import json
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from pydantic import JsonValue

from activities import deciding, reconsidering
from activities.outcomes import after_attempt
from ledger.admission import Admitted, AlreadyAdmitted, Reads, RequestIdTaken
from ledger.approvals import Verdict
from ledger.data_keys import KeyDestroyed
from ledger.ledger import Ledger
from ledger.records import CallRecord
from policy.model import NOTHING_DONE
from schemas.calls import Call
from schemas.codes import Code
from schemas.decisions import PolicyDecision
from schemas.effects import Confirmed, Failed, Unknown
from tests.asked import NAMED
from tests.ledger.refunds import POLICY, TOOL, Refund, advance, decide, exchange, new_binding, open_ledger, parked, took

ROOT = Path(__file__).parents[2]


async def test_of_two_payments_of_6000_of_10000_at_once_exactly_one_goes(ledger: Ledger, database: str) -> None:
    async with open_ledger(database) as other:
        for _ in range(30):
            first, second = Refund(6_000), Refund(6_000)
            second = Refund(6_000, first.payment_id, new_binding(tenant=first.binding.tenant))
            records = await asyncio.gather(first.admit(ledger), second.admit(other))
            assert sorted(record.code for record in records) == [Code.IN_PROGRESS, Code.REFUND_EXCEEDS_PAID]


async def test_what_an_admission_reads_is_not_planned_anew_for_each(ledger: Ledger) -> None:
    """Planning takes several times as long, while others wait for the lock."""
    first = Refund(100)
    for n in range(8):
        await Refund(100, f"pay_{n}", first.binding).admit(ledger)
    async with ledger.database.tenant(first.binding.tenant).acquire() as connection:
        plans = await connection.fetchrow(
            "SELECT sum(custom_plans) AS anew, sum(generic_plans) AS kept FROM pg_prepared_statements"
            " WHERE statement = $1",
            NAMED["calls.admission_reads"],
        )
        assert plans is not None
        assert (plans["anew"], plans["kept"]) == (0, 8)
        assert await connection.fetchval("SHOW plan_cache_mode") == "auto"


async def test_the_one_that_lost_is_told_what_is_left(ledger: Ledger) -> None:
    first = Refund(6_000)
    await first.admit(ledger)
    record = await Refund(6_000, first.payment_id, first.binding).admit(ledger)
    assert record.reply().allowed == {"max_amount_cents": 4_000}


async def test_refunds_from_several_processes_never_exceed_what_was_paid(database: str) -> None:
    amounts = [str(900 + 20 * n) for n in range(20)]
    tenant, payment = "acme", "pay_0e6eca9d290a"
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.ledger.refunds", database, payment, tenant, *share),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        for share in (amounts[::2], amounts[1::2])
    ]
    printed = await asyncio.gather(*(process.communicate() for process in processes))
    ended = [each for output, _ in printed for each in json.loads(output)]
    taken = sum(amount for amount, code in ended if code == Code.IN_PROGRESS)
    refused = [amount for amount, code in ended if code == Code.REFUND_EXCEEDS_PAID]
    assert len(ended) == 20
    assert taken <= 10_000
    # Nobody was refused what was still there.
    assert taken + min(refused) > 10_000


async def test_the_same_workflow_id_is_admitted_once(ledger: Ledger, database: str) -> None:
    binding, key = new_binding(), "0f" * 16
    async with open_ledger(database) as other:
        tries = [Refund(1_000, "pay_1", binding, key=key).admit(each) for each in (ledger, other) * 5]
        ended = await asyncio.gather(*tries, return_exceptions=True)
    (admitted,) = (each for each in ended if isinstance(each, CallRecord))
    known = [each for each in ended if isinstance(each, AlreadyAdmitted)]
    assert len(known) == 9
    assert {each.request_id for each in known} == {admitted.request_id}
    assert await ledger.system.fetchval("SELECT count(DISTINCT request_id) FROM uses") == 1


async def test_another_calls_request_id_is_not_taken_over(ledger: Ledger) -> None:
    first = await Refund(1_000).admit(ledger)
    with pytest.raises(RequestIdTaken):
        await Refund(1_000, request_id=first.request_id).admit(ledger)
    assert await ledger.system.fetchval("SELECT count(*) FROM calls") == 1


async def test_an_admission_that_fails_leaves_nothing(ledger: Ledger) -> None:
    call = Refund(1_000).proposed.call

    def decide(reads: Reads) -> Admitted:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await ledger.admissions.admit(call, [], None, datetime.now(UTC), decide)
    for table in ("calls", "events", "uses", "approvals"):
        assert await ledger.system.fetchval(f"SELECT count(*) FROM {table}") == 0


async def test_what_a_failed_admission_left_in_memory_never_seals_what_comes_after(
    ledger: Ledger, database: str
) -> None:
    """A customer's key that was made in a transaction that failed must not be used: nobody could read it again."""
    refund = Refund(1_000)
    taken = await Refund(1_000).admit(ledger)
    with pytest.raises(RequestIdTaken):
        await Refund(1_000, binding=refund.binding, request_id=taken.request_id).admit(ledger)
    record = await refund.admit(ledger)
    async with open_ledger(database) as after_a_restart:
        try:
            assert (await after_a_restart.calls.read(record.request_id)).status == "in_progress"
        except KeyDestroyed:
            pytest.fail("it was sealed with a key that was rolled back")


async def test_a_runs_limit_is_counted_exactly_under_30_calls_at_once(ledger: Ledger, database: str) -> None:
    binding = new_binding()
    async with open_ledger(database) as other:
        refunds = [Refund(100 + n, binding=binding) for n in range(30)]
        records = await asyncio.gather(
            *(each.admit(where) for each, where in zip(refunds, (ledger, other) * 15, strict=True))
        )
    assert Counter(record.code for record in records) == {Code.IN_PROGRESS: 5, Code.RATE_LIMITED: 25}
    refusal = next(record for record in records if record.code is Code.RATE_LIMITED).reply()
    assert (refusal.action, refusal.attempts_remaining) == ("stop_and_report", 0)


async def test_a_customers_total_is_counted_exactly_across_runs(ledger: Ledger) -> None:
    """At most 200.00 of a customer's refunds in 24 hours go without a person, whatever runs at once."""
    binding = new_binding()
    runs = [new_binding(tenant=binding.tenant, customer_id=binding.customer_id) for _ in range(10)]
    records = await asyncio.gather(*(Refund(4_500 + n, binding=run).admit(ledger) for n, run in enumerate(runs)))
    assert Counter(record.status for record in records) == {"in_progress": 4, "pending_approval": 6}
    held = next(record for record in records if record.status == "pending_approval")
    assert held.details.decision is not None
    assert held.details.decision.rule == "customer_24h"


@pytest.mark.parametrize(
    ("age", "expected"),
    [(timedelta(hours=23, minutes=59), "pending_approval"), (timedelta(hours=24, minutes=1), "in_progress")],
)
async def test_a_window_ends_where_it_says(ledger: Ledger, age: timedelta, expected: str) -> None:
    binding = new_binding()
    await Refund(15_000, binding=binding, available=15_000, order_id="ord_000000000000").admit(ledger)
    await ledger.system.execute("UPDATE uses SET at = at - $1::interval", age)
    assert (await Refund(6_000, binding=binding).admit(ledger)).status == expected


async def test_the_tools_hourly_limit_says_when_it_frees(ledger: Ledger) -> None:
    binding = new_binding()
    await ledger.system.execute(
        "INSERT INTO uses (request_id, tenant, tool, subject, amount, at, changed_at, state)"
        " SELECT 'act_' || n, $1, $2, 'tool', 100, now() - interval '50 minutes', now(), 'spent'"
        " FROM generate_series(1, 100) n",
        binding.tenant,
        TOOL,
    )
    refusal = (await Refund(100, binding=binding).admit(ledger)).reply()
    assert (refusal.code, refusal.action) == (Code.RATE_LIMITED, "retry_after_delay")
    assert refusal.retry_after_seconds is not None
    assert 590 <= refusal.retry_after_seconds <= 601
    await ledger.system.execute("UPDATE uses SET at = at - interval '11 minutes' WHERE request_id = 'act_7'")
    assert (await Refund(100, binding=binding).admit(ledger)).code is Code.IN_PROGRESS


async def test_a_refused_call_takes_nothing(ledger: Ledger) -> None:
    await Refund(6_000, available=5_000).admit(ledger)
    assert await ledger.system.fetchval("SELECT count(*) FROM uses") == 0


async def _settle(ledger: Ledger, record: CallRecord, outcome: Confirmed | Failed | Unknown) -> None:
    assert record.details.effect is not None
    await advance(ledger, record, after_attempt(record.details.effect, outcome, done="it", operation="refund"))


@pytest.mark.parametrize(
    ("outcome", "left"),
    [
        (Failed(code=Code.REMOTE_REFUSED, exchange=exchange()), 10_000),
        (Unknown(exchange=exchange("bytes_sent")), 4_000),
        (Confirmed(remote_id="re_1", result={}, exchange=exchange()), 4_000),
    ],
    ids=["failed", "unknown", "confirmed"],
)
async def test_what_a_sent_refund_holds_is_given_back_only_when_it_failed(
    ledger: Ledger, outcome: Confirmed | Failed | Unknown, left: int
) -> None:
    since = datetime.now(UTC)
    first = Refund(6_000)
    await _settle(ledger, await first.admit(ledger, since=since), outcome)
    record = await Refund(10_000, first.payment_id, first.binding).admit(ledger, since=since)
    if left == 10_000:
        assert record.code is Code.IN_PROGRESS
    else:
        assert record.reply().allowed == {"max_amount_cents": left}


async def test_what_was_spent_before_the_facts_were_read_is_not_counted_twice(ledger: Ledger) -> None:
    """The gateway's own number has it by then."""
    first = Refund(6_000)
    record = await first.admit(ledger)
    await _settle(ledger, record, Confirmed(remote_id="re_1", result={}, exchange=exchange()))
    after = await ledger.system.fetchval("SELECT clock_timestamp()")
    again = Refund(4_000, first.payment_id, first.binding, available=4_000)
    assert (await again.admit(ledger, since=after)).code is Code.IN_PROGRESS


@pytest.mark.parametrize("ending", ["denied", "expired", "cancelled"])
async def test_a_parked_call_holds_until_it_ends_without_an_effect(ledger: Ledger, ending: str) -> None:
    payment, binding = "pay_1", new_binding()
    approval = await parked(ledger, payment_id=payment, binding=binding)
    assert (await Refund(30_000, payment, binding, 50_000).admit(ledger)).code is Code.REFUND_EXCEEDS_PAID
    if ending == "denied":
        assert (await decide(ledger, approval, verdict="deny"))[0] is Verdict.RECORDED
    elif ending == "expired":
        await ledger.system.execute("UPDATE approvals SET expires_at = now() - interval '1 second'")
        await ledger.approvals.expire(approval.request_id)
    else:
        await ledger.approvals.withdraw(approval.request_id, "support-bot")
    assert (await ledger.calls.read(approval.request_id)).status == ending
    assert await ledger.system.fetchval("SELECT array_agg(DISTINCT state) FROM uses") == ["released"]
    assert (await Refund(10_000, payment, binding, 50_000).admit(ledger)).code is Code.IN_PROGRESS


async def test_a_voided_call_gives_back_what_it_held(ledger: Ledger) -> None:
    approval = await parked(ledger)
    _, record = await decide(ledger, approval)
    assert record is not None
    await advance(ledger, record, reconsidering.voided(approval.approval_id, "the facts have changed", {}))
    assert await ledger.system.fetchval("SELECT array_agg(DISTINCT state) FROM uses") == ["released"]


async def test_a_resource_is_guarded_across_tools(ledger: Ledger, database: str) -> None:
    """Limits are counted by tool; what is left of a payment is the same for every tool that takes from it."""
    async with open_ledger(database) as other:
        for n in range(20):
            refund = Refund(6_000, f"pay_{n}")
            first, policy_decision = refund.proposed.call, (await Refund(100).admit(ledger)).details.decision
            second = Refund(6_000, refund.payment_id, refund.binding).proposed.call
            second = second.model_copy(update={"tool": "adjust_payment", "workflow_id": f"call/adjusted/{n}"})
            resource = f"payment:{refund.payment_id}"
            assert policy_decision is not None

            def decide(call: Call, reads: Reads, resource: str, made: PolicyDecision) -> Admitted:
                if reads.reserved + 6_000 <= 10_000:
                    return took(call, made, {resource: 6_000})
                return deciding.refused(call, made.model_copy(update={"code": Code.REFUND_EXCEEDS_PAID}), NOTHING_DONE)

            now = datetime.now(UTC)
            records = await asyncio.gather(
                *(
                    each.admissions.admit(
                        call, [], resource, now, partial(decide, call, resource=resource, made=policy_decision)
                    )
                    for each, call in ((ledger, first), (other, second))
                )
            )
            assert sorted(record.code for record in records) == [Code.IN_PROGRESS, Code.REFUND_EXCEEDS_PAID]


def test_every_counter_of_the_policy_is_counted_per_a_bound_subject() -> None:
    """Nothing that the agent chooses picks what is counted, save the order, which was checked to be the customer's, and
    what makes calls alike, which only adds to what is counted of the agent."""
    refund = Refund(4_000)
    binding = refund.binding
    windows = deciding.windows_for(POLICY.tool(TOOL), refund.proposed)
    subjects = {window.subject for window in windows}
    (repeat,) = [each for each in subjects if each.startswith("repeat:")]
    assert subjects - {repeat} == {
        f"run:{binding.run_id}",
        f"turn:{binding.run_id}:{refund.request_id}",
        "tool",
        "tenant",
        f"together:order:{refund.order_id}",
        f"together:customer:{binding.customer_id}",
        f"together:agent:{binding.agent_id}",
        f"unasked:agent:{binding.agent_id}",
        f"unasked:agent:{binding.agent_id}:4000:USD",
    }


def _repeat(refund: Refund, **arguments: JsonValue) -> str:
    proposed = refund.proposed
    call = proposed.call.model_copy(update={"arguments": {**proposed.call.arguments, **arguments}})
    windows = deciding.windows_for(POLICY.tool(TOOL), dataclasses.replace(proposed, call=call))
    return next(window.subject for window in windows if window.name == "same_10m")


def test_the_same_refund_is_known_whatever_its_key_and_its_words() -> None:
    first = Refund(4_000)
    again = Refund(4_000, binding=first.binding)
    assert _repeat(again, note="in other words") == _repeat(first)
    assert _repeat(Refund(4_000)) != _repeat(first), "another customer's"
    for name, value in {"amount_cents": 4_001, "order_id": "ord_000000000000", "reason_code": "goodwill"}.items():
        assert _repeat(again, **{name: value}) != _repeat(first), name


async def test_the_same_refund_within_ten_minutes_goes_to_a_person(ledger: Ledger) -> None:
    first = Refund(3_000)
    assert (await first.admit(ledger)).verdict == "notify"
    for words in ("hold", "hold"):
        record = await Refund(3_000, first.payment_id, first.binding).admit(ledger)
        assert record.verdict == words
        assert record.details.decision is not None
        assert record.details.decision.rule == "likely_duplicate"
    assert (await Refund(999, first.payment_id, first.binding).admit(ledger)).verdict == "notify"


async def test_refunds_at_once_are_one_refund_and_likely_duplicates(ledger: Ledger) -> None:
    first = Refund(1_000)
    records = await asyncio.gather(*(Refund(1_000, first.payment_id, first.binding).admit(ledger) for _ in range(5)))
    assert sorted(str(record.verdict) for record in records) == ["hold"] * 4 + ["notify"]


async def test_a_refund_that_came_to_nothing_is_no_reason_to_ask(ledger: Ledger) -> None:
    first = Refund(4_000)
    record = await first.admit(ledger)
    effect = record.details.effect
    assert effect is not None
    failed = Failed(code=Code.REMOTE_REFUSED, exchange=exchange())
    await advance(ledger, record, after_attempt(effect, failed, done="", operation="refund"))
    assert (await Refund(4_000, first.payment_id, first.binding).admit(ledger)).verdict == "notify"
