"""What a run did before: by tool, and in the same turn."""

import asyncio
import secrets
from datetime import UTC, datetime

from ledger.ledger import Ledger
from policy.load import DEFAULT_POLICY
from runtime.policy import load_checked
from schemas.calls import Doing, RunFacts
from tests.ledger.refunds import CATALOG, TOOL, Refund, new_binding
from tools.doings import run_facts

POLICY = load_checked(DEFAULT_POLICY, CATALOG)
CHAINED = "chained"


async def test_a_run_knows_what_it_did(ledger: Ledger) -> None:
    binding = new_binding()
    admissions = ledger.of(binding.tenant).admissions
    assert await admissions.doings(binding.run_id) == []
    await Refund(1_000, binding=binding).admit(ledger)
    (doing,) = await admissions.doings(binding.run_id)
    assert (doing.tool, doing.executed_at) == (TOOL, None)
    run = run_facts(CATALOG, [doing])
    assert run == RunFacts(tools=(TOOL,), touched=("credential_use", "money_movement", "write_side_effect"))


async def test_what_came_to_nothing_is_not_among_it(ledger: Ledger) -> None:
    binding = new_binding()
    record = await Refund(20_000, binding=binding).admit(ledger)
    assert record.status == "refused"
    assert await ledger.of(binding.tenant).admissions.doings(binding.run_id) == []


def test_a_tool_that_is_gone_may_have_touched_anything() -> None:

    touched = run_facts(CATALOG, [Doing("gone_tool", datetime.now(UTC), None)]).touched
    assert {"read_private", "read_untrusted", "external_communication"} <= set(touched)


async def test_a_second_refund_of_a_turn_waits_for_a_person(ledger: Ledger) -> None:
    binding, trace = new_binding(), secrets.token_hex(16)
    first = await Refund(1_000, binding=binding, trace_id=trace, policy=POLICY).admit(ledger)
    second = await Refund(1_001, binding=binding, trace_id=trace, policy=POLICY).admit(ledger)
    assert (first.verdict, second.verdict, second.rule) == ("notify", "hold", CHAINED)


async def test_of_two_at_once_in_a_turn_one_waits(ledger: Ledger) -> None:
    binding, trace = new_binding(), secrets.token_hex(16)
    both = [Refund(1_000 + n, binding=binding, trace_id=trace, policy=POLICY) for n in range(2)]
    records = await asyncio.gather(*(each.admit(ledger) for each in both))
    assert sorted(str(each.rule) for each in records) == [CHAINED, "otherwise"]


async def test_another_turn_another_run_or_no_trace_is_no_chain(ledger: Ledger) -> None:
    binding, trace = new_binding(), secrets.token_hex(16)
    await Refund(1_000, binding=binding, trace_id=trace, policy=POLICY).admit(ledger)
    for other, its_trace in (
        (binding, secrets.token_hex(16)),
        (new_binding(), trace),
        (binding, None),
        (binding, None),
    ):
        record = await Refund(1_001, binding=other, trace_id=its_trace, policy=POLICY).admit(ledger)
        assert record.rule != CHAINED, its_trace


async def test_one_that_came_to_nothing_is_given_back(ledger: Ledger) -> None:
    binding, trace = new_binding(), secrets.token_hex(16)
    parked = await Refund(25_000, binding=binding, trace_id=trace, available=50_000, policy=POLICY).admit(ledger)
    assert parked.status == "pending_approval"
    await ledger.of(binding.tenant).approvals.withdraw(parked.request_id, binding.agent_id)
    after = await Refund(1_001, binding=binding, trace_id=trace, policy=POLICY).admit(ledger)
    assert after.rule == "otherwise"
