"""Whom it takes, and by when: two people, more time, and approvals that have become too old to act on."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from activities.closing import Closing
from ledger.approvals import Verdict
from policy.in_force import Fixed
from schemas.calls import CallRef, Progress
from schemas.codes import Code
from schemas.decisions import Approval, HumanDecision
from schemas.proofs import SIGN_IN_SECONDS, Proof
from tests.activities.desk import Desk
from tests.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def desk(wired: Service) -> Desk:
    return Desk(wired)


async def _decide(desk: Desk, approval: Approval, approver: str) -> Verdict:
    token = desk.token(approval, approver=approver)
    approvals = desk.service.core.ledger.of(approval.tenant).approvals
    return (await approvals.decide(desk.service.services.verifier.verify(token), token))[0]


async def _decided_long_ago(desk: Desk, approval: Approval, token: str) -> None:
    ledger = desk.service.core.ledger
    await ledger.of(approval.tenant).approvals.decide(desk.service.services.verifier.verify(token), token)
    await ledger.system.execute(
        "UPDATE decisions SET decided_at = decided_at - interval '61 minutes' WHERE approval_id = $1",
        approval.approval_id,
    )


async def _expire(desk: Desk, request_id: str) -> Progress:
    closing = Closing(desk.service.services, desk.decisions, desk.effects)
    return await (await desk.service.activities_of(request_id)).run(closing.expire, CallRef(request_id=request_id))


async def _reload(desk: Desk, approval: Approval) -> Approval:
    found = await desk.service.core.ledger.of(approval.tenant).approvals.get(approval.tenant, approval.approval_id)
    assert found is not None
    return found


async def test_beyond_an_amount_it_takes_two_people(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order, 45_000)
    assert (approval.people, approval.rules) == (2, ("over_threshold", "four_eyes", "customer_24h"))
    first = desk.token(approval, approver="ana")
    # Delivered as often as anyone likes, and repeated in another spelling: it is one person's.
    for token in (first, first, desk.token(approval, approver="ana")):
        progress = await desk.execute(approval.request_id, approval, token)
        assert (progress.next, progress.status) == ("hold", "pending_approval")
    assert await desk.service.outside.effects(order) == []
    types = await desk.types(approval.request_id)
    assert types.count("approval.supported") == 1
    assert types.count("decision.rejected") == 1
    ended = await desk.execute(approval.request_id, approval, desk.token(approval, approver="ben"))
    assert ended.code is Code.OK
    assert len(await desk.service.outside.effects(order)) == 1
    assert [each.approver for each in (await _reload(desk, approval)).decisions] == ["ana", "ben"]


async def test_what_one_person_approved_another_can_still_deny(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order, 45_000)
    assert await _decide(desk, approval, "ana") is Verdict.WAITING
    denied = desk.token(approval, "deny", approver="ben", reason="not due")
    assert (await desk.deny(approval.request_id, approval, denied)).code is Code.USER_DENIED
    assert await _decide(desk, approval, "cleo") is Verdict.ALREADY_DECIDED
    assert await desk.service.outside.effects(order) == []


async def test_one_approval_in_the_database_is_not_two(desk: Desk) -> None:
    """Whoever can write `in_progress` into a call does not get past the signatures."""
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order, 45_000)
    assert await _decide(desk, approval, "ana") is Verdict.WAITING
    await desk.service.core.ledger.system.execute(
        "UPDATE calls SET status = 'in_progress' WHERE request_id = $1", approval.request_id
    )
    await desk.execute(approval.request_id)
    assert await desk.service.outside.effects(order) == []


async def test_two_approvals_by_one_right_are_not_two(desk: Desk) -> None:
    """That of somebody who is away, used by somebody else and by themself: whatever the database says of it."""
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order, 45_000)
    ledger, tenant = desk.service.core.ledger, approval.tenant
    ana, mei = (f"{each}-{tenant}" for each in ("ana", "mei"))
    insert = "INSERT INTO users (tenant, username, display_name, roles) VALUES ($1, $2, 'Example', '{finance}')"
    for name in (ana, mei):
        await ledger.system.execute(insert, tenant, name)
    now = datetime.now(UTC)
    delegations = ledger.of(tenant).delegations
    assert await delegations.lend(tenant, ana, mei, now, now + timedelta(days=1), reason="an example", by=ana)
    for approver, lender in ((mei, ana), (ana, None)):
        token = desk.token(approval, approver=approver, on_behalf_of=lender)
        decision = desk.service.services.verifier.verify(token)
        assert (await ledger.of(tenant).approvals.decide(decision, token))[0] is Verdict.WAITING
    await ledger.system.execute("UPDATE calls SET status = 'in_progress' WHERE request_id = $1", approval.request_id)
    await desk.execute(approval.request_id)
    assert await desk.service.outside.effects(order) == []


async def test_a_policy_that_asks_for_a_second_person_meanwhile_is_obeyed(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order, 25_000)
    assert await _decide(desk, approval, "ana") is Verdict.RECORDED
    policy = await desk.service.services.policies.now()
    tool = policy.tools["issue_refund"]
    holds = tuple(replace(hold, people=2) for hold in tool.holds)
    stricter = replace(policy, tools={**policy.tools, "issue_refund": replace(tool, holds=holds)})
    ended = await Desk(desk.service.elsewhere(policies=Fixed(stricter))).execute(approval.request_id)
    assert ended.code is Code.APPROVAL_VOID
    assert await desk.service.outside.effects(order) == []


async def test_beyond_an_amount_whoever_approves_has_proven_who_they_are(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order, 48_000)
    assert (approval.people, approval.proof) == (2, "reauthenticated")
    proven = Proof(kind="password", at=datetime.now(UTC))
    stale = Proof(kind="sign_in", at=datetime.now(UTC) - timedelta(seconds=SIGN_IN_SECONDS + 1))
    for proof in (None, stale):
        progress = await desk.execute(approval.request_id, approval, desk.token(approval, proof=proof))
        assert progress.next == "hold"
    assert "approval.supported" not in await desk.types(approval.request_id)
    assert (await desk.types(approval.request_id)).count("decision.rejected") == 2
    assert (await desk.execute(approval.request_id, approval, desk.token(approval, proof=proven))).next == "hold"
    ended = await desk.execute(approval.request_id, approval, desk.token(approval, approver="ben", proof=proven))
    assert ended.code is Code.OK


async def test_what_is_in_the_database_without_a_proof_runs_nothing(desk: Desk) -> None:
    """Whoever can write decisions and `in_progress` into the ledger does not get past what was signed."""
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order, 48_000)
    proof = Proof(kind="password", at=datetime.now(UTC))
    for approver, given in (("ana", proof), ("ben", None)):
        token = desk.token(approval, approver=approver, proof=given)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(HumanDecision, "is_proven", lambda self, required: True)
            approvals = desk.service.core.ledger.of(approval.tenant).approvals
            await approvals.decide(desk.service.services.verifier.verify(token), token)
    assert (await desk.record(approval.request_id)).status == "in_progress"
    await desk.execute(approval.request_id)
    assert await desk.service.outside.effects(order) == []


async def test_a_policy_that_asks_for_a_proof_meanwhile_is_obeyed(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order, 25_000)
    assert await _decide(desk, approval, "ana") is Verdict.RECORDED
    policy = await desk.service.services.policies.now()
    tool = policy.tools["issue_refund"]
    holds = tuple(replace(hold, proof="reauthenticated") for hold in tool.holds)
    stricter = replace(policy, tools={**policy.tools, "issue_refund": replace(tool, holds=holds)})
    ended = await Desk(desk.service.elsewhere(policies=Fixed(stricter))).execute(approval.request_id)
    assert ended.code is Code.APPROVAL_VOID
    assert await desk.service.outside.effects(order) == []


async def test_an_approval_that_could_not_be_acted_on_in_time_is_asked_for_again(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order)
    late = desk.token(approval)
    await _decided_long_ago(desk, approval, late)
    progress = await desk.execute(approval.request_id, approval, late)
    assert (progress.next, progress.status) == ("hold", "pending_approval")
    assert progress.approval_id not in (None, approval.approval_id)
    assert (await _reload(desk, approval)).status == "voided"
    assert await desk.service.outside.effects(order) == []
    again = await desk.service.approval(await desk.record(approval.request_id))
    assert (again.status, again.title, again.action_digest) == ("open", approval.title, approval.action_digest)
    assert progress.expires_at == again.expires_at
    # What was said of the first one says nothing of this one, however often it is delivered.
    assert (await desk.execute(approval.request_id, approval, late)).next == "hold"
    assert (await desk.approved(again)).code is Code.OK
    assert len(await desk.service.outside.effects(order)) == 1
    types = await desk.types(approval.request_id)
    assert [each for each in types if each.startswith("approval.")] == [
        *("approval.requested", "approval.granted", "approval.voided", "approval.requested", "approval.granted")
    ]


async def test_how_old_an_approval_is_one_clock_says(desk: Desk) -> None:
    """The one of the database; that of whoever signed it may be wrong."""
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order)
    behind = desk.token(approval, decided_at=datetime.now(UTC) - timedelta(hours=2))
    assert (await desk.execute(approval.request_id, approval, behind)).code is Code.OK


async def test_a_person_gives_it_more_time(desk: Desk) -> None:
    approval = await desk.parked(await desk.service.outside.order(50_000))
    approvals = desk.service.core.ledger.of(approval.tenant).approvals
    until = approval.expires_at + timedelta(hours=4)
    assert await approvals.extend(approval, until, by="ana", reason="the bank calls back") is Verdict.RECORDED
    assert (await _reload(desk, approval)).expires_at == until
    progress = await _expire(desk, approval.request_id)
    assert (progress.next, progress.expires_at) == ("hold", until), "the workflow waits for that now"
    assert (await desk.record(approval.request_id)).reply().expires_at == until.strftime("%Y-%m-%dT%H:%M:%SZ")
    for earlier in (until, approval.expires_at, approval.requested_at):
        assert await approvals.extend(approval, earlier, by="ana", reason="less") is Verdict.STALE
    assert (await desk.approved(approval)).code is Code.OK
    assert await approvals.extend(approval, until + timedelta(1), by="ana", reason="") is Verdict.ALREADY_DECIDED


async def test_what_has_expired_gets_no_more_time(desk: Desk) -> None:
    approval = await desk.parked(await desk.service.outside.order(50_000))
    await desk.service.core.ledger.system.execute(
        "UPDATE approvals SET expires_at = now() WHERE approval_id = $1", approval.approval_id
    )
    approvals = desk.service.core.ledger.of(approval.tenant).approvals
    tomorrow = approval.expires_at + timedelta(days=1)
    assert await approvals.extend(approval, tomorrow, by="ana", reason="too late") is Verdict.EXPIRED
    assert (await _expire(desk, approval.request_id)).code is Code.APPROVAL_EXPIRED


async def test_after_half_the_time_another_group_may_decide_too(desk: Desk) -> None:
    approval = await desk.parked(await desk.service.outside.order(50_000))
    half = approval.requested_at + (approval.expires_at - approval.requested_at) / 2
    assert approval.groups(half - timedelta(minutes=1)) == {"finance"}
    assert approval.groups(half + timedelta(minutes=1)) == {"finance", "leads"}
