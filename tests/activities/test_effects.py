"""`execute`, `inspect` and the decisions they take, over a real ledger and the sandbox, without Temporal."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities import deciding, proposals, reconsidering
from activities.closing import Closing
from activities.previewing import Previewing
from activities.proposals import read_facts
from ledger.calls import UnknownCall
from ledger.keys import MasterKey
from ledger.principals import Principal
from ledger.records import CallRecord
from ledger.signing import DecisionSigner
from schemas.calls import CallRef, ExecuteRequest, PreviewInput
from schemas.codes import Code
from schemas.decisions import Approval
from schemas.events import DecisionRejected
from tests.activities.desk import Desk
from tests.service import Service, human_decision, refund_arguments

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def desk(wired: Service) -> Desk:
    return Desk(wired)


@pytest.fixture
def split(wired: Service) -> Desk:
    """Where credentials are kept apart: `admit` decides, `execute` sends."""
    return Desk(wired.elsewhere(inline=False))


async def test_a_second_run_of_admit_never_sends_again(desk: Desk) -> None:
    order = await desk.service.outside.order()
    proposal = await desk.service.proposal(order, 4_000)
    first, second = [await desk.admit(*proposal) for _ in range(2)]
    assert (first.next, first.code) == ("settled", Code.OK)
    assert second == first
    assert await desk.service.outside.sends(await desk.record(first.request_id)) == 1


async def test_ten_runs_of_admit_at_once_send_once(desk: Desk) -> None:
    order = await desk.service.outside.order()
    proposal = await desk.service.proposal(order, 4_000)
    ended = await asyncio.gather(*(desk.admit(*proposal) for _ in range(10)))
    assert "settled" in {progress.next for progress in ended}
    assert {progress.next for progress in ended} <= {"settled", "inspect"}
    assert len(await desk.service.outside.effects(order)) == 1
    assert await desk.service.outside.sends(await desk.record(ended[0].request_id)) == 1


async def test_ten_runs_of_execute_at_once_send_once(split: Desk) -> None:
    order = await split.service.outside.order()
    admitted = await split.refund(order, 4_000)
    assert admitted.next == "execute"
    ended = await asyncio.gather(*(split.execute(admitted.request_id) for _ in range(10)))
    assert {progress.next for progress in ended} <= {"settled", "inspect"}
    assert (await split.execute(admitted.request_id)).next == "settled"
    assert len(await split.service.outside.effects(order)) == 1
    assert await split.service.outside.sends(await split.record(admitted.request_id)) == 1


async def test_beside_the_workflow_it_is_sent_by_who_may_and_once(desk: Desk, split: Desk) -> None:
    """A local activity runs again when its workflow's task does."""
    approval = await desk.parked(await desk.service.outside.order(50_000))
    request = ExecuteRequest(
        request_id=approval.request_id, approval_id=approval.approval_id, token=desk.token(approval)
    )
    elsewhere = await split.service.activities_of(approval.request_id)
    assert await elsewhere.run(split.effects.execute_here, request) is None
    assert (await desk.record(approval.request_id)).status == "pending_approval"
    here = await desk.service.activities_of(approval.request_id)
    here.info = replace(here.info, is_local=True)
    first, second = [await here.run(desk.effects.execute_here, request) for _ in range(2)]
    assert first is not None
    assert (first.next, first.code, first.inline) == ("settled", Code.OK, True)
    assert second == first
    assert await desk.service.outside.sends(await desk.record(approval.request_id)) == 1


async def test_a_second_run_of_an_approved_execute_finds_the_first(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order)
    token = desk.token(approval)
    first, second = [await desk.execute(approval.request_id, approval, token) for _ in range(2)]
    assert (first.next, second.next) == ("settled", "settled")
    assert await desk.service.outside.sends(await desk.record(approval.request_id)) == 1


async def _lose_the_worker(desk: Desk, request_id: str) -> None:
    """The intent is committed; whoever committed it says no more."""
    calls = desk.service.core.ledger.calls
    record = await calls.read(request_id)
    proposed = await _proposed(desk, record)
    now = datetime.now(UTC)
    policy = await desk.service.services.policies.now()
    await calls.advance(request_id, lambda _, __: reconsidering.intended(policy, proposed, now))


async def _proposed(desk: Desk, record: CallRecord) -> deciding.Proposed:
    entry = desk.service.services.catalog.get(record.tool)
    assert entry is not None
    proposed = await read_facts(desk.service.services, record.details.call, entry, desk.effects.arguments_of(record))
    assert isinstance(proposed, deciding.Proposed)
    return proposed


async def test_after_a_worker_lost_before_it_sent_nothing_is_sent_and_nothing_given_back(split: Desk) -> None:
    order = await split.service.outside.order()
    request_id = (await split.refund(order, 4_000)).request_id
    await _lose_the_worker(split, request_id)
    assert (await split.execute(request_id)).next == "inspect"
    looked = await split.inspect(request_id)
    assert (looked.next, looked.code) == ("inspect", Code.OUTCOME_UNKNOWN)
    assert await split.service.outside.effects(order) == []
    assert (await split.types(request_id))[-3:] == ["effect.intended", "effect.unknown", "effect.inspected"]
    run = await split.service.open_run(order["customer_id"], tenant=(await split.record(request_id)).tenant)
    more = await split.admit(*await split.service.input_for(run.run_id, refund_arguments(order, 6_001)))
    assert more.code is Code.REFUND_EXCEEDS_PAID


async def test_after_a_worker_lost_once_it_had_sent_inspection_finds_the_refund(split: Desk) -> None:
    order = await split.service.outside.order()
    request_id = (await split.refund(order, 4_000)).request_id
    await _lose_the_worker(split, request_id)
    effect = (await split.record(request_id)).details.effect
    assert effect is not None
    entry = split.service.services.catalog.get("issue_refund")
    assert entry is not None
    record = await split.record(request_id)
    with split.service.services.outside(entry, record.tenant) as systems:
        await entry.tool.execute(effect, systems)  # pyright: ignore[reportAttributeAccessIssue]
    assert (await split.execute(request_id)).next == "inspect"
    found = await split.inspect(request_id)
    assert (found.next, found.code) == ("settled", Code.OK)
    record = await split.record(request_id)
    assert await split.service.outside.sends(record) == 1
    assert record.reply().result is not None


@pytest.mark.parametrize("do", ["commit_then_drop", "commit_then_500", "garbage", "wrong_amount", "wrong_id"])
async def test_an_answer_that_cannot_be_believed_is_looked_up(desk: Desk, do: str) -> None:
    order = await desk.service.outside.order()
    await desk.service.outside.fault(do, order)
    sent = await desk.refund(order, 4_000)
    assert (sent.next, sent.code) == ("inspect", Code.OUTCOME_UNKNOWN)
    found = await desk.inspect(sent.request_id)
    assert (found.next, found.code) == ("settled", Code.OK)
    assert await desk.service.outside.sends(await desk.record(sent.request_id)) == 1


async def test_a_refund_that_the_gateway_did_not_execute_gives_back_what_it_held(desk: Desk) -> None:
    order = await desk.service.outside.order()
    await desk.service.outside.fault("429:7", order)
    run = await desk.service.open_run(order["customer_id"])
    failed = await desk.admit(*await desk.service.input_for(run.run_id, refund_arguments(order, 10_000)))
    assert (failed.next, failed.code) == ("settled", Code.RATE_LIMITED)
    again = await desk.admit(*await desk.service.input_for(run.run_id, refund_arguments(order, 10_000)))
    assert (again.next, again.code) == ("settled", Code.OK)


async def _dispute(desk: Desk, order: dict[str, Any]) -> None:
    await desk.service.outside.put_order({**order, "disputed": True})


async def _flag_the_customer(desk: Desk, order: dict[str, Any]) -> None:
    await desk.service.outside.customer(order["customer_id"], fraud_flag=True)


async def _refund_elsewhere(desk: Desk, order: dict[str, Any]) -> None:
    await desk.service.outside.refund_in_dashboard(order, order["payments"][0]["captured_cents"] - 1_000)


async def _reopen(desk: Desk, order: dict[str, Any]) -> None:
    await desk.service.outside.put_order({**order, "status": "open"})


async def _hand_to_another(desk: Desk, order: dict[str, Any]) -> None:
    await desk.service.outside.put_order({**order, "customer_id": "cus_another"})


CHANGES: list[Callable[..., Any]] = [_dispute, _flag_the_customer, _refund_elsewhere, _reopen, _hand_to_another]


@pytest.mark.parametrize("change", CHANGES)
async def test_what_was_approved_is_void_when_its_facts_changed(desk: Desk, change: Callable[..., Any]) -> None:
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order)
    await change(desk, order)
    ended = await desk.approved(approval)
    assert (ended.next, ended.code) == ("settled", Code.APPROVAL_VOID)
    assert await desk.service.outside.effects(order) == []
    assert (await desk.types(approval.request_id))[-3:] == ["approval.granted", "approval.voided", "call.settled"]


@pytest.mark.parametrize("change", CHANGES)
async def test_a_free_call_that_waited_for_its_worker_is_asked_about_again(
    split: Desk, change: Callable[..., Any]
) -> None:
    """It may have waited for hours: what the policy allowed then it may not allow now."""
    order = await split.service.outside.order()
    admitted = await split.refund(order, 4_000)
    await change(split, order)
    ended = await split.execute(admitted.request_id)
    assert (ended.next, ended.code) == ("settled", Code.APPROVAL_VOID)
    assert await split.service.outside.effects(order) == []
    assert (await split.types(admitted.request_id))[-2:] == ["call.decided", "call.settled"]


async def test_facts_that_cannot_be_read_before_the_effect_send_nothing_and_wait(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order)
    await desk.service.outside.fault("503", order, operation="get", times=3)
    waiting = await desk.approved(approval)
    assert (waiting.next, waiting.status) == ("execute", "in_progress")
    assert (await desk.execute(approval.request_id)).code is Code.OK
    assert await desk.service.outside.sends(await desk.record(approval.request_id)) == 1


async def test_without_any_decision_a_parked_call_does_not_run(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order)
    before = await desk.types(approval.request_id)
    assert (await desk.execute(approval.request_id)).next == "hold"
    assert await desk.types(approval.request_id) == before


def _unsigned(desk: Desk, approval: Approval) -> str:
    return human_decision(approval, "approve").model_dump_json()


def _signed_by_another(desk: Desk, approval: Approval) -> str:
    return DecisionSigner(MasterKey(bytes(32))).sign(human_decision(approval, "approve"))


def _altered(desk: Desk, approval: Approval) -> str:
    header, _, signature = desk.token(approval, "deny", reason="no").split(".")
    _, payload, _ = _signed_by_another(desk, approval).split(".")
    return f"{header}.{payload}.{signature}"


def _without_a_signature(desk: Desk, approval: Approval) -> str:
    _, payload, _ = desk.token(approval).split(".")
    return f"eyJhbGciOiJub25lIn0.{payload}."


def _for_another_approval(desk: Desk, approval: Approval) -> str:
    return desk.token(approval, approval_id="apr_" + "0" * 32)


def _for_another_call(desk: Desk, approval: Approval) -> str:
    return desk.token(approval, request_id="act_" + "0" * 32)


def _for_another_tenant(desk: Desk, approval: Approval) -> str:
    return desk.token(approval, tenant="another")


def _for_another_action(desk: Desk, approval: Approval) -> str:
    return desk.token(approval, action_digest="0" * 64)


REJECTED: list[tuple[Callable[[Desk, Approval], str], str]] = [
    (_unsigned, "not_signed_by_the_approval_surface"),
    (_signed_by_another, "not_signed_by_the_approval_surface"),
    (_altered, "not_signed_by_the_approval_surface"),
    (_without_a_signature, "not_signed_by_the_approval_surface"),
    (_for_another_approval, "made_for_another_approval"),
    (_for_another_call, "made_for_another_approval"),
    (_for_another_tenant, "unknown"),
    (_for_another_action, "stale"),
]


@pytest.mark.parametrize(("forge", "because"), REJECTED)
async def test_what_is_no_decision_on_this_very_action_is_rejected_on_the_record(
    desk: Desk, forge: Callable[[Desk, Approval], str], because: str
) -> None:
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order)
    forged = forge(desk, approval)
    for n, deliver in enumerate((desk.execute, desk.deny), start=1):
        ended = await deliver(approval.request_id, approval, forged)
        assert (ended.next, ended.status) == ("hold", "pending_approval")
        events = [event for _, event in await desk.service.core.ledger.calls.events(approval.request_id)]
        rejected = [event for event in events if isinstance(event, DecisionRejected)]
        assert [event.because for event in rejected] == [because] * n
    assert await desk.service.outside.effects(order) == []
    assert (await desk.approved(approval)).code is Code.OK


async def test_a_decision_for_one_call_does_not_open_another(desk: Desk) -> None:
    order, other = await desk.service.outside.order(50_000), await desk.service.outside.order(50_000)
    approval, another = await desk.parked(order), await desk.parked(other)
    assert (await desk.execute(another.request_id, another, desk.token(approval))).next == "hold"
    assert await desk.service.outside.effects(other) == []
    assert (await desk.approved(approval)).code is Code.OK


async def test_another_decision_after_the_first_is_rejected_on_the_record(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order)
    record = await desk.record(approval.request_id)
    record = await desk.decisions.take(record, approval.approval_id, desk.token(approval))
    assert record.status == "in_progress"
    record = await desk.decisions.take(record, approval.approval_id, desk.token(approval, "deny", approver="ben"))
    assert record.status == "in_progress"
    assert (await desk.types(approval.request_id))[-2:] == ["approval.granted", "decision.rejected"]


async def test_the_very_same_decision_delivered_twice_counts_once(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order)
    record, token = await desk.record(approval.request_id), desk.token(approval)
    for _ in range(2):
        record = await desk.decisions.take(record, approval.approval_id, token)
    assert (await desk.types(approval.request_id)).count("approval.granted") == 1
    assert "decision.rejected" not in await desk.types(approval.request_id)


async def test_a_denial_wrapped_as_an_approval_denies(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order)
    ended = await desk.execute(approval.request_id, approval, desk.token(approval, "deny", reason="no"))
    assert (ended.next, ended.code) == ("settled", Code.USER_DENIED)
    assert await desk.service.outside.effects(order) == []


async def test_an_approval_recorded_by_somebody_with_the_database_alone_does_not_count(desk: Desk) -> None:
    """What is in the table is verified again before it lets anything run."""
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order)
    await desk.service.core.ledger.approvals.decide(human_decision(approval, "approve"), "not.a.signature")
    ended = await desk.execute(approval.request_id)
    assert ended.next == "execute"
    assert await desk.service.outside.effects(order) == []


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"run_id": "run_" + "0" * 32}, "UnknownRun"),
    ({"tool": "no_such_tool"}, "TOOL_NOT_AVAILABLE"),
    ({"tool": "reinstate_order"}, "TOOL_NOT_AVAILABLE"),
    ({"tool": "get_refund_history"}, "TOOL_NOT_AVAILABLE"),
    ({"arguments": {}}, "INVALID_INPUT"),
    ({"arguments": {"customer_id": "cus_another"}}, "INVALID_INPUT"),
]


@pytest.mark.parametrize(("change", "kind"), REFUSED)
async def test_whoever_starts_a_workflow_gets_no_further_than_the_run_allows(
    desk: Desk, change: dict[str, Any], kind: str
) -> None:
    order = await desk.service.outside.order()
    request, workflow_id = await desk.service.proposal(order, 4_000)
    with pytest.raises(ApplicationError) as refused:
        await desk.admit(request.model_copy(update=change), workflow_id)
    assert (refused.value.type, refused.value.non_retryable) == (kind, True)
    assert await desk.service.outside.effects(order) == []


async def test_an_internal_tool_cannot_be_called_by_a_run_that_names_it(desk: Desk) -> None:
    """However the name came into the run: its token publishes nothing."""
    order = await desk.service.outside.order()
    run = await desk.service.open_run(order["customer_id"], tools=("reinstate_order",))
    arguments: dict[str, Any] = {"order_id": order["order_id"], "idempotency_key": "0" * 32}
    request, workflow_id = await desk.service.input_for(run.run_id, arguments, "reinstate_order")
    with pytest.raises(ApplicationError) as refused:
        await desk.admit(request, workflow_id)
    assert refused.value.type == "TOOL_NOT_AVAILABLE"
    preview = PreviewInput(**request.model_dump(), queue="orders")
    with pytest.raises(ApplicationError) as refused:
        await ActivityEnvironment().run(Previewing(desk.service.services).preview, preview)
    assert refused.value.type == "TOOL_NOT_AVAILABLE"


async def test_a_call_under_another_workflow_id_is_refused(desk: Desk) -> None:
    order = await desk.service.outside.order()
    request, _ = await desk.service.proposal(order, 4_000)
    with pytest.raises(ApplicationError) as refused:
        await desk.admit(request, "call/acme/issue_refund/" + "0" * 64)
    assert refused.value.type == "WrongWorkflowId"


async def test_a_closed_run_makes_no_new_calls_but_finishes_those_it_made(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    request, workflow_id = await desk.service.proposal(order, 25_000)
    assert (await desk.admit(request, workflow_id)).next == "hold"
    another, another_id = await desk.service.input_for(request.run_id, refund_arguments(order, 1_000))
    await desk.service.core.ledger.system.execute(
        "UPDATE runs SET expires_at = now() - interval '1 second' WHERE run_id = $1", request.run_id
    )
    with pytest.raises(ApplicationError) as refused:
        await desk.admit(another, another_id)
    assert refused.value.type == "RunClosed"
    assert (await desk.admit(request, workflow_id)).next == "hold"


async def test_another_calls_request_id_is_refused(desk: Desk) -> None:
    order = await desk.service.outside.order()
    request, workflow_id = await desk.service.proposal(order, 1_000)
    await desk.admit(request, workflow_id)
    another, another_id = await desk.service.proposal(order, 1_000)
    with pytest.raises(ApplicationError) as refused:
        await desk.admit(another.model_copy(update={"request_id": request.request_id}), another_id)
    assert (refused.value.type, refused.value.non_retryable) == ("RequestIdTaken", True)


async def test_another_customers_order_is_not_found(desk: Desk) -> None:
    order, own = await desk.service.outside.order(), await desk.service.outside.order()
    run = await desk.service.open_run(own["customer_id"])
    ended = await desk.admit(*await desk.service.input_for(run.run_id, refund_arguments(order, 1_000)))
    assert (ended.next, ended.code) == ("settled", Code.ORDER_NOT_FOUND)


async def _revoke(desk: Desk, request_id: str) -> None:
    """The run of a call, by the service that opened it."""
    binding = (await desk.record(request_id)).details.call.binding
    service = Principal(kind="service", tenant=binding.tenant, name="runtime")
    assert await desk.service.core.ledger.principals.revoke_run(service, binding.run_id) is not None


async def test_an_approved_call_of_a_revoked_run_is_void(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order)
    await _revoke(desk, approval.request_id)
    ended = await desk.approved(approval)
    assert (ended.next, ended.code) == ("settled", Code.APPROVAL_VOID)
    said = (await desk.record(approval.request_id)).details.explanation
    assert said is not None
    assert said.values["because"] == "the run was revoked"
    assert await desk.service.outside.effects(order) == []
    assert (await desk.types(approval.request_id))[-2:] == ["approval.voided", "call.settled"]


async def test_an_approved_call_of_an_expired_run_is_executed(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    approval = await desk.parked(order)
    run_id = (await desk.record(approval.request_id)).details.call.binding.run_id
    await desk.service.core.ledger.system.execute(
        "UPDATE runs SET expires_at = now() - interval '1 second' WHERE run_id = $1", run_id
    )
    assert (await desk.approved(approval)).code is Code.OK
    assert len(await desk.service.outside.effects(order)) == 1


async def test_a_run_that_is_revoked_while_the_facts_are_read_admits_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = await desk.service.outside.order()
    request, workflow_id = await desk.service.proposal(order, 1_000)
    state = await desk.service.core.ledger.admissions.run(request.run_id, "")
    assert state is not None
    service = Principal(kind="service", tenant=state.binding.tenant, name="runtime")
    read = proposals.read_facts

    async def read_and_revoke(*arguments: Any) -> Any:
        facts = await read(*arguments)
        await desk.service.core.ledger.principals.revoke_run(service, request.run_id)
        return facts

    monkeypatch.setattr(proposals, "read_facts", read_and_revoke)
    with pytest.raises(ApplicationError) as refused:
        await desk.admit(request, workflow_id)
    assert (refused.value.type, refused.value.non_retryable) == ("RunClosed", True)
    assert await desk.service.outside.effects(order) == []


async def test_a_workflow_reaches_no_other_tenants_call(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    approval, own = await desk.parked(order), await desk.parked(await desk.service.outside.order(50_000))
    elsewhere = await desk.service.activities_of(own.request_id)
    token = desk.token(approval)
    request = ExecuteRequest(request_id=approval.request_id, approval_id=approval.approval_id, token=token)
    ref = CallRef(request_id=approval.request_id)
    closing = Closing(desk.service.services, desk.decisions, desk.effects)
    asking: list[tuple[Callable[[Any], Any], Any]] = [
        (desk.effects.execute, request),
        (desk.inspecting.inspect, ref),
        (closing.deny, request),
        (closing.expire, ref),
        (closing.withdraw, ref),
    ]
    for activity, asked in asking:
        with pytest.raises(UnknownCall):
            await elsewhere.run(activity, asked)
    # Its own run, under the workflow id of the other's call: what that call came to is not told.
    record = await desk.record(approval.request_id)
    mine, _ = await desk.service.proposal(order, 25_000)
    with pytest.raises(ApplicationError) as refused:
        await desk.admit(mine, record.workflow_id)
    assert refused.value.type == "WrongWorkflowId"
    assert (await desk.record(approval.request_id)).status == "pending_approval"
