"""Decisions, deadlines and withdrawals: the first one wins, and only the database's clock judges."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from ledger.approvals import Verdict
from ledger.inbox import Filter
from ledger.ledger import Ledger
from schemas.switches import Deadlines
from tests.ledger.refunds import decide, decision, new_binding, open_ledger, parked
from tests.ledger.stopped_clock import StoppedClock


async def _types(ledger: Ledger, request_id: str) -> list[str]:
    return [event.type for _, event in await ledger.calls.events(request_id)]


async def _pass_the_deadline(ledger: Ledger) -> None:
    await ledger.system.execute("UPDATE approvals SET expires_at = clock_timestamp() - interval '1 millisecond'")


async def test_of_30_decisions_at_once_the_first_one_wins(ledger: Ledger, database: str) -> None:
    approval = await parked(ledger)
    async with open_ledger(database) as other:
        outcomes = await asyncio.gather(
            *(
                decide(
                    (ledger, other)[n % 2],
                    approval,
                    approver=f"approver{n}",
                    verdict=("approve", "deny")[n % 3 == 0],
                )
                for n in range(30)
            )
        )
    assert Counter(verdict for verdict, _ in outcomes) == {Verdict.RECORDED: 1, Verdict.ALREADY_DECIDED: 29}
    assert await ledger.system.fetchval("SELECT count(*) FROM decisions") == 1
    decided = {"approval.granted", "approval.denied"}
    assert len(decided.intersection(await _types(ledger, approval.request_id))) == 1
    status = (await ledger.calls.read(approval.request_id)).status
    winner = next(record for verdict, record in outcomes if verdict is Verdict.RECORDED)
    assert winner is not None
    assert status == winner.status


async def test_a_person_who_decides_twice_at_once_is_recorded_once(ledger: Ledger) -> None:
    approval = await parked(ledger)
    outcomes = await asyncio.gather(*(decide(ledger, approval) for _ in range(10)))
    assert Counter(verdict for verdict, _ in outcomes) == {Verdict.RECORDED: 1, Verdict.ALREADY_DECIDED: 9}


async def test_the_same_decision_again_is_a_repetition(ledger: Ledger) -> None:
    approval = await parked(ledger)
    made = decision(approval)
    outcomes = await asyncio.gather(*(ledger.approvals.decide(made, "token") for _ in range(10)))
    assert Counter(verdict for verdict, _ in outcomes) == {Verdict.RECORDED: 1, Verdict.REPEATED: 9}
    assert (await _types(ledger, approval.request_id)).count("approval.granted") == 1


async def test_a_decision_on_another_action_is_stale(ledger: Ledger) -> None:
    approval = await parked(ledger)
    verdict, _ = await decide(ledger, approval, action_digest="0" * 64)
    assert verdict is Verdict.STALE
    assert (await decide(ledger, approval))[0] is Verdict.RECORDED


@pytest.mark.parametrize(
    "change", [{"tenant": "other"}, {"approval_id": "apr_" + "0" * 32}, {"request_id": "act_" + "0" * 32}]
)
async def test_a_decision_for_another_tenant_approval_or_call_is_unknown(
    ledger: Ledger, change: dict[str, str]
) -> None:
    approval = await parked(ledger)
    assert (await decide(ledger, approval, **change))[0] is Verdict.UNKNOWN
    assert (await ledger.calls.read(approval.request_id)).status == "pending_approval"


@pytest.mark.parametrize("verdict", ["approve", "deny"])
async def test_after_the_deadline_nothing_is_decided_even_before_anyone_closed_it(ledger: Ledger, verdict: str) -> None:
    approval = await parked(ledger)
    await _pass_the_deadline(ledger)
    outcome, record = await decide(ledger, approval, verdict=verdict)
    assert outcome is Verdict.EXPIRED
    assert record is not None
    assert record.status == "pending_approval"
    assert (await ledger.approvals.expire(approval.request_id)).status == "expired"
    assert (await decide(ledger, approval))[0] is Verdict.EXPIRED


@pytest.mark.parametrize(
    ("off_by", "expected"), [(-1, Verdict.RECORDED), (0, Verdict.EXPIRED), (1, Verdict.EXPIRED)], ids=str
)
async def test_a_millisecond_decides(stopped: tuple[Ledger, StoppedClock], off_by: int, expected: Verdict) -> None:
    ledger, clock = stopped
    approval = await parked(ledger)
    await clock.set(approval.expires_at + timedelta(milliseconds=off_by))
    assert (await decide(ledger, approval))[0] is expected
    # Whatever the decision itself says about when it was made.
    late = await parked(ledger)
    await clock.set(late.expires_at + timedelta(milliseconds=off_by))
    assert (await decide(ledger, late, decided_at=late.requested_at))[0] is expected
    closed = await ledger.approvals.expire(late.request_id)
    assert (closed.status == "expired") == (expected is Verdict.EXPIRED)


async def test_expiry_before_the_deadline_does_nothing(ledger: Ledger) -> None:
    approval = await parked(ledger)
    before = await _types(ledger, approval.request_id)
    assert (await ledger.approvals.expire(approval.request_id)).status == "pending_approval"
    assert await _types(ledger, approval.request_id) == before


async def test_expiry_never_undoes_a_decision(ledger: Ledger) -> None:
    approval = await parked(ledger)
    await decide(ledger, approval)
    await _pass_the_deadline(ledger)
    assert (await ledger.approvals.expire(approval.request_id)).status == "in_progress"


async def test_withdrawal_against_approval_has_one_winner(ledger: Ledger, database: str) -> None:
    winners: Counter[str] = Counter()
    async with open_ledger(database) as other:
        approvals = [await parked(ledger) for _ in range(50)]
        for n, approval in enumerate(approvals):
            tries = [other.approvals.withdraw(approval.request_id, "support-bot"), decide(ledger, approval)]
            if n % 2:
                tries.reverse()
            ended = await asyncio.gather(*tries)
            (_, withdrawn), (verdict, _) = reversed(ended) if n % 2 else ended
            approved = verdict is Verdict.RECORDED
            assert approved != withdrawn
            assert approved or verdict is Verdict.ALREADY_DECIDED
            status = (await ledger.calls.read(approval.request_id)).status
            assert status == ("in_progress" if approved else "cancelled")
            winners[status] += 1
    assert sum(winners.values()) == 50


async def test_a_withdrawn_call_says_who_withdrew_it_once(ledger: Ledger) -> None:
    approval = await parked(ledger)
    outcomes = [await ledger.approvals.withdraw(approval.request_id, "support-bot") for _ in range(2)]
    assert [withdrawn for _, withdrawn in outcomes] == [True, False]
    assert (await _types(ledger, approval.request_id)).count("call.cancelled") == 1


async def test_what_was_decided_can_be_read_again(ledger: Ledger, database: str) -> None:
    approval = await parked(ledger)
    made = decision(approval, "deny", reason="Ada Example was paid back in the shop")
    await ledger.approvals.decide(made, "the signed form")
    async with open_ledger(database) as after_a_restart:
        found = await after_a_restart.approvals.get(approval.tenant, approval.approval_id)
        assert found is not None
        (read,) = found.decisions
        assert read.model_copy(update={"decided_at": made.decided_at}) == made
        ((signed, at),) = await after_a_restart.approvals.granted_by(approval.approval_id)
        assert (signed, at) == ("the signed form", read.decided_at)


async def test_a_recorded_approval_is_undelivered_until_its_call_moves_on(ledger: Ledger) -> None:
    approval, denied = await parked(ledger), await parked(ledger)
    made = decision(approval)
    await ledger.approvals.decide(made, "the signed form")
    await decide(ledger, denied, verdict="deny")
    (found,) = await ledger.approvals.undelivered(-1)
    assert (found.approval_id, found.token) == (approval.approval_id, "the signed form")
    assert await ledger.approvals.undelivered(60) == []


async def test_pages_of_what_waits_hold_each_once_in_order_of_deadline(ledger: Ledger) -> None:
    tenant = "acme"
    made = [await parked(ledger, binding=new_binding(tenant=tenant)) for _ in range(5)]
    for limit in range(1, 7):
        seen: list[str] = []
        after = None
        while page := await ledger.of(tenant).inbox.waiting(tenant, Filter(), after=after, limit=limit):
            seen += [each.approval_id for each in page]
            after = (page[-1].expires_at, page[-1].approval_id)
        assert seen == [each.approval_id for each in sorted(made, key=lambda a: (a.expires_at, a.approval_id))]


@pytest.mark.parametrize(("deadlines", "verdict"), [("pause", Verdict.RECORDED), ("run", Verdict.EXPIRED)])
async def test_a_deadline_does_not_pass_while_a_switch_pauses_it(
    ledger: Ledger, deadlines: Deadlines, verdict: Verdict
) -> None:
    approval = await parked(ledger)
    covering = ["all", f"run:{approval.run_id}"]
    await ledger.switches.turn_off(
        approval.tenant, f"run:{approval.run_id}", by="olga", reason="an example", deadlines=deadlines
    )
    await ledger.system.execute(
        "UPDATE approvals SET expires_at = now() - interval '1 minute' WHERE approval_id = $1", approval.approval_id
    )
    made = decision(approval, "deny", reason="not this time")
    outcome, _ = await ledger.of(approval.tenant).approvals.decide(made, "the signed form", covering)
    assert outcome is verdict
