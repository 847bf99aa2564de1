"""What becomes of an outcome that is not known, over a real ledger and the hostile sandbox: it is looked up, sent again
under the same key, or a person's to settle; and what becomes of one that is undone later."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from pydantic import JsonValue
from temporalio.exceptions import ApplicationError

from activities.patience import Patience
from ledger.reviews import Conclusion, Settled
from policy.document import WhenAbsent
from policy.in_force import Fixed
from schemas.calls import Progress
from schemas.codes import Code
from schemas.decisions import Approval
from schemas.effects import Effect
from schemas.events import EffectIntended, EffectReversed, ReviewConcluded, ReviewRequested
from tests.activities.desk import Desk
from tests.service import Service, refund_arguments
from tools.catalog import Catalog

pytestmark = pytest.mark.asyncio(loop_scope="session")

AT_ONCE = Patience(absence=timedelta(0), review=timedelta(hours=1), attempts=4)


async def _desk(service: Service, patience: Patience, when_absent: WhenAbsent = "resend") -> Desk:
    policy = await service.services.policies.now()
    tools = {name: replace(tool, when_absent=when_absent) for name, tool in policy.tools.items()}
    return Desk(service.elsewhere(patience=patience, policies=Fixed(replace(policy, tools=tools))))


@pytest_asyncio.fixture(loop_scope="session")
async def desk(wired: Service) -> Desk:
    """Here what is not listed is absent at once."""
    return await _desk(wired, AT_ONCE)


async def _lost(desk: Desk, do: str, *, times: int = 1, amount: int = 4_000) -> tuple[dict[str, Any], Progress]:
    """A refund whose answer was lost so."""
    order = await desk.service.outside.order()
    await desk.service.outside.fault(do, order, times=times)
    sent = await desk.refund(order, amount)
    assert (sent.next, sent.code) == ("inspect", Code.OUTCOME_UNKNOWN)
    return order, sent


async def _work_off(desk: Desk, progress: Progress) -> Progress:
    """What the workflow does, without its pauses, until the call is settled or a person's."""
    for _ in range(30):
        if progress.next == "resend":
            progress = await desk.resend(progress.request_id)
        elif progress.next == "inspect" and (await desk.record(progress.request_id)).review is None:
            progress = await desk.inspect(progress.request_id)
        else:
            return progress
    raise AssertionError("it goes on and on")


async def _intents(desk: Desk, request_id: str) -> list[Effect]:
    events = [event for _, event in await desk.service.core.ledger.calls.events(request_id)]
    return [event.effect for event in events if isinstance(event, EffectIntended)]


async def _uses(desk: Desk, request_id: str) -> set[str]:
    rows = await desk.service.core.ledger.system.fetch("SELECT state FROM uses WHERE request_id = $1", request_id)
    return {row["state"] for row in rows}


@pytest.mark.parametrize("do", ["503", "drop_before_read", "reset", "redirect_self", "already_refunded"])
async def test_what_is_absent_is_sent_again_under_the_same_key(desk: Desk, do: str) -> None:
    order, sent = await _lost(desk, do)
    looked = await desk.inspect(sent.request_id)
    assert (looked.next, looked.status) == ("resend", "outcome_unknown")
    ended = await desk.resend(sent.request_id)
    assert (ended.next, ended.code) == ("settled", Code.OK)
    (effect,) = await desk.service.outside.effects(order)
    first, second = await _intents(desk, sent.request_id)
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.gateway_key == second.gateway_key == effect["idempotency_key"]
    assert first.operation_id == second.operation_id == effect["operation_id"]
    assert (first.intended_at, first.target) == (second.intended_at, second.target)
    assert await desk.service.outside.sends(await desk.record(sent.request_id)) == 2


async def test_what_its_system_would_do_twice_is_not_sent_again(desk: Desk) -> None:
    """The manifest says that a repeat under the same key is another effect: then a person settles it."""
    entries = [
        replace(entry, manifest=entry.manifest.model_copy(update={"idempotency": "none"}))
        for entry in desk.service.services.catalog.all()
    ]
    careful = Desk(desk.service.elsewhere(catalog=Catalog(entries)))
    order, sent = await _lost(careful, "503")
    looked = await careful.inspect(sent.request_id)
    record = await careful.record(sent.request_id)
    assert (looked.next, record.review) == ("inspect", "absent")
    assert (await careful.resend(sent.request_id)).next == "inspect"
    assert await careful.service.outside.sends(record) == 1
    assert await careful.service.outside.effects(order) == []


async def test_in_use_in_use_and_then_done_is_one_refund(desk: Desk) -> None:
    """The first request hangs at the gateway; repeats are told so until one is answered."""
    order, sent = await _lost(desk, "reset")
    await desk.service.outside.fault("in_use", order, times=2)
    ended = await _work_off(desk, sent)
    assert (ended.next, ended.code) == ("settled", Code.OK)
    assert len(await desk.service.outside.effects(order)) == 1
    assert len({effect.gateway_key for effect in await _intents(desk, sent.request_id)}) == 1


async def test_an_endless_503_needs_review_and_keeps_what_it_holds(desk: Desk) -> None:
    order, sent = await _lost(desk, "503", times=100)
    ended = await _work_off(desk, sent)
    record = await desk.record(sent.request_id)
    assert (ended.next, record.status, record.review) == ("inspect", "outcome_unknown", "absent")
    assert await desk.service.outside.sends(record) == AT_ONCE.attempts
    assert await _uses(desk, sent.request_id) == {"held"}
    assert await desk.service.core.ledger.alerts.of(sent.request_id) == ["needs_review"]
    run = await desk.service.open_run(order["customer_id"], tenant=record.tenant)
    more = await desk.admit(*await desk.service.input_for(run.run_id, refund_arguments(order, 6_001)))
    assert more.code is Code.REFUND_EXCEEDS_PAID
    # It is still looked at, and neither sent nor announced again.
    again = await desk.inspect(sent.request_id)
    assert (again.next, again.after_seconds > 0) == ("inspect", True)
    assert (await desk.resend(sent.request_id)).next == "inspect"
    assert await desk.service.outside.sends(record) == AT_ONCE.attempts
    assert await desk.service.core.ledger.alerts.of(sent.request_id) == ["needs_review"]


async def test_a_500_for_ever_under_one_key_while_the_refund_exists_is_found(desk: Desk) -> None:
    order, sent = await _lost(desk, "commit_then_500", times=100)
    ended = await _work_off(desk, sent)
    assert (ended.next, ended.code) == ("settled", Code.OK)
    assert await desk.service.outside.sends(await desk.record(sent.request_id)) == 1
    assert len(await desk.service.outside.effects(order)) == 1


async def test_already_refunded_after_a_lost_answer_is_looked_up_first(desk: Desk) -> None:
    order, sent = await _lost(desk, "commit_then_drop", amount=10_000)
    await desk.service.outside.fault("already_refunded", order, times=3)
    ended = await _work_off(desk, sent)
    assert (ended.next, ended.code) == ("settled", Code.OK)
    assert await desk.service.outside.sends(await desk.record(sent.request_id)) == 1


async def test_what_shows_late_is_waited_for_and_not_sent_again(wired: Service) -> None:
    desk = await _desk(wired, Patience(absence=timedelta(minutes=5)))
    order, sent = await _lost(desk, "late_visible:0.4")
    assert (await desk.inspect(sent.request_id)).next == "inspect"
    async with asyncio.timeout(10):
        while (await desk.inspect(sent.request_id)).next != "settled":
            await asyncio.sleep(0.05)
    assert await desk.service.outside.sends(await desk.record(sent.request_id)) == 1
    assert len(await desk.service.outside.effects(order)) == 1


async def test_what_shows_later_than_anyone_thought_is_repeated_and_still_one_refund(desk: Desk) -> None:
    """The key makes the repeat harmless: the gateway answers it with the refund that it already made."""
    order, sent = await _lost(desk, "late_visible:300")
    ended = await _work_off(desk, sent)
    assert (ended.next, ended.code) == ("settled", Code.OK)
    assert len(await desk.service.outside.effects(order)) == 1


async def test_where_the_policy_wants_a_person_nothing_is_sent_again(wired: Service) -> None:
    desk = await _desk(wired, AT_ONCE, "review")
    _, sent = await _lost(desk, "503")
    looked = await desk.inspect(sent.request_id)
    record = await desk.record(sent.request_id)
    assert (looked.next, record.review) == ("inspect", "absent")
    assert (await desk.resend(sent.request_id)).next == "inspect"
    assert await desk.service.outside.sends(record) == 1
    events = [event for _, event in await desk.service.core.ledger.calls.events(sent.request_id)]
    assert [event.because for event in events if isinstance(event, ReviewRequested)] == ["absent"]


async def test_what_cannot_be_looked_up_for_too_long_is_a_persons(wired: Service) -> None:
    desk = await _desk(wired, Patience(absence=timedelta(0), review=timedelta(0)))
    order, sent = await _lost(desk, "commit_then_drop")
    await desk.service.outside.fault("503", order, operation="list", times=1)
    await desk.inspect(sent.request_id)
    assert (await desk.record(sent.request_id)).review == "unreadable"
    found = await desk.inspect(sent.request_id)
    assert (found.next, found.code) == ("settled", Code.OK)
    assert (await desk.record(sent.request_id)).review is None


async def _dispute(desk: Desk, order: dict[str, Any], request_id: str) -> None:
    await desk.service.outside.put_order({**order, "disputed": True})


async def _refund_elsewhere(desk: Desk, order: dict[str, Any], request_id: str) -> None:
    await desk.service.outside.refund_in_dashboard(order, 7_000)


async def _revoke_the_run(desk: Desk, order: dict[str, Any], request_id: str) -> None:
    run_id = (await desk.record(request_id)).details.call.binding.run_id
    await desk.service.core.ledger.system.execute("UPDATE runs SET revoked_at = now() WHERE run_id = $1", run_id)


@pytest.mark.parametrize("change", [_dispute, _refund_elsewhere, _revoke_the_run])
async def test_what_would_not_be_allowed_now_is_not_sent_again(desk: Desk, change: Any) -> None:
    order, sent = await _lost(desk, "503")
    assert (await desk.inspect(sent.request_id)).next == "resend"
    await change(desk, order, sent.request_id)
    await desk.resend(sent.request_id)
    record = await desk.record(sent.request_id)
    assert (record.status, record.review) == ("outcome_unknown", "absent")
    assert await desk.service.outside.sends(record) == 1


async def test_ten_repeats_at_once_send_once(desk: Desk) -> None:
    order, sent = await _lost(desk, "503")
    assert (await desk.inspect(sent.request_id)).next == "resend"
    ended = await asyncio.gather(*(desk.resend(sent.request_id) for _ in range(10)))
    assert {progress.next for progress in ended} <= {"settled", "inspect"}
    assert len(await desk.service.outside.effects(order)) == 1
    assert len({effect.gateway_key for effect in await _intents(desk, sent.request_id)}) == 1


async def test_a_repeat_whose_worker_was_lost_is_looked_up_before_it_is_made_once_more(desk: Desk) -> None:
    order, sent = await _lost(desk, "503")

    class Died(Exception):
        pass

    def die(point: str) -> None:
        if point == "send.before":
            raise Died

    dying = Desk(desk.service.elsewhere(reached=die))
    with pytest.raises(Died):
        await dying.resend(sent.request_id)
    assert [effect.attempt for effect in await _intents(desk, sent.request_id)] == [1, 2]
    assert await desk.service.outside.sends(await desk.record(sent.request_id)) == 1
    ended = await _work_off(desk, await desk.inspect(sent.request_id))
    assert (ended.next, ended.code) == ("settled", Code.OK)
    assert len(await desk.service.outside.effects(order)) == 1


async def test_a_refund_that_its_bank_sends_back_can_be_made_again(desk: Desk) -> None:
    order = await desk.service.outside.order()
    await desk.service.outside.fault("pending_then_failed", order)
    run = await desk.service.open_run(order["customer_id"])
    sent = await desk.admit(*await desk.service.input_for(run.run_id, refund_arguments(order, 10_000)))
    record = await desk.record(sent.request_id)
    assert record.reply().result is not None
    assert record.reply().result["status"] == "pending"  # pyright: ignore[reportOptionalSubscript]
    assert record.recheck_at is not None
    assert record.recheck_at - record.created_at <= timedelta(hours=2)
    undone = await desk.recheck(sent.request_id)
    assert (undone.next, undone.status, undone.code) == ("settled", "failed", Code.REMOTE_REFUSED)
    events = [event for _, event in await desk.service.core.ledger.calls.events(sent.request_id)]
    assert [event.remote_id for event in events if isinstance(event, EffectReversed)] == [record.remote_id]
    assert await _uses(desk, sent.request_id) == {"released"}
    assert await desk.service.core.ledger.alerts.of(sent.request_id) == ["effect_reversed"]
    again = await desk.admit(*await desk.service.input_for(run.run_id, refund_arguments(order, 10_000)))
    assert (again.next, again.code) == ("settled", Code.OK)


async def test_a_refund_that_is_still_there_stays_done_and_says_nothing(desk: Desk) -> None:
    order = await desk.service.outside.order()
    sent = await desk.refund(order, 4_000)
    before = await desk.record(sent.request_id)
    assert before.remote_id is not None
    await desk.recheck(sent.request_id)
    after = await desk.record(sent.request_id)
    assert (after.status, after.details) == ("executed", before.details)
    assert (await desk.types(sent.request_id))[before.head.n :] == ["effect.inspected"]
    assert await desk.service.core.ledger.alerts.of(sent.request_id) == []
    assert await _uses(desk, sent.request_id) == {"spent"}


async def _in_review(desk: Desk) -> tuple[dict[str, Any], str]:
    order, sent = await _lost(desk, "503", times=4)
    await _work_off(desk, sent)
    return order, sent.request_id


def _conclusion(*, happened: bool) -> Conclusion:
    done: dict[str, JsonValue] | None = {"refund_id": "re_by_hand", "amount_cents": 4_000} if happened else None
    return Conclusion(
        operator="olga",
        because="absent",
        happened=happened,
        evidence="Looked through the gateway's dashboard with the operation id.",
        remote_id="re_by_hand" if happened else None,
        result=done,
        done="refunded 40.00 USD",
    )


@pytest.mark.parametrize("happened", [True, False])
async def test_a_person_settles_what_could_not_be_found_out_once(desk: Desk, happened: bool) -> None:
    _, request_id = await _in_review(desk)
    reviews = desk.service.core.ledger.of((await desk.record(request_id)).tenant).reviews
    (first, record), (second, _) = [
        await reviews.conclude(request_id, _conclusion(happened=each)) for each in (happened, not happened)
    ]
    assert (first, second) == (Settled.RECORDED, Settled.NOT_IN_REVIEW)
    assert (record.status, record.review) == ("executed" if happened else "failed", None)
    assert await _uses(desk, request_id) == {"spent" if happened else "released"}
    events = [event for _, event in await desk.service.core.ledger.calls.events(request_id)]
    (concluded,) = [event for event in events if isinstance(event, ReviewConcluded)]
    assert (concluded.operator, concluded.happened) == ("olga", happened)
    assert await desk.service.core.ledger.alerts.open(record.tenant, 10) == []
    assert (await desk.inspect(request_id)).next == "settled"
    assert record.recheck_at is not None


async def test_what_a_person_said_did_not_happen_and_did_counts_and_is_said_aloud(desk: Desk) -> None:
    order, sent = await _lost(desk, "late_visible:1", times=1)
    # As if nothing had been seen of it for long enough.
    review = await _desk(desk.service, AT_ONCE, "review")
    await review.inspect(sent.request_id)
    tenant = (await desk.record(sent.request_id)).tenant
    reviews = desk.service.core.ledger.of(tenant).reviews
    settled, _ = await reviews.conclude(sent.request_id, _conclusion(happened=False))
    assert settled is Settled.RECORDED
    async with asyncio.timeout(10):
        while (await desk.recheck(sent.request_id)).status != "executed":
            await asyncio.sleep(0.05)
    assert await _uses(desk, sent.request_id) == {"spent"}
    assert (await desk.service.core.ledger.alerts.of(sent.request_id))[-1] == "effect_after_all"
    assert len(await desk.service.outside.effects(order)) == 1


async def test_nobody_settles_a_call_that_is_not_in_review(desk: Desk) -> None:
    order = await desk.service.outside.order()
    sent = await desk.refund(order, 4_000)
    tenant = (await desk.record(sent.request_id)).tenant
    settled, record = await desk.service.core.ledger.of(tenant).reviews.conclude(
        sent.request_id, _conclusion(happened=False)
    )
    assert (settled, record.status) == (Settled.NOT_IN_REVIEW, "executed")


async def _parked(desk: Desk, order: dict[str, Any], *amounts: int) -> list[Approval]:
    """Refunds of one run that wait for a person."""
    run = await desk.service.open_run(order["customer_id"])
    asked = [await desk.service.input_for(run.run_id, refund_arguments(order, amount)) for amount in amounts]
    return [await desk.service.approval(await desk.record((await desk.admit(*each)).request_id)) for each in asked]


async def test_what_the_gateway_counts_already_is_not_held_against_others_as_well(desk: Desk) -> None:
    """Two approved refunds of one order, the second decided while the first one's answer is lost."""
    order = await desk.service.outside.order(50_000)
    first, second = await _parked(desk, order, 20_100, 20_300)
    await desk.service.outside.fault("commit_then_drop", order)
    assert (await desk.approved(first)).next == "inspect"
    ended = await desk.approved(second)
    assert (ended.next, ended.code) == ("settled", Code.OK)
    assert sorted(each["amount"] for each in await desk.service.outside.effects(order)) == [20_100, 20_300]


async def test_what_the_gateway_does_not_count_is_held_against_others(desk: Desk) -> None:
    order = await desk.service.outside.order(9_000)
    await desk.service.outside.fault("drop_before_read", order)
    run = await desk.service.open_run(order["customer_id"])
    lost = await desk.admit(*await desk.service.input_for(run.run_id, refund_arguments(order, 4_000)))
    assert lost.next == "inspect"
    more = await desk.admit(*await desk.service.input_for(run.run_id, refund_arguments(order, 5_001)))
    assert (await desk.record(more.request_id)).reply().allowed == {"max_amount_cents": 5_000}


async def test_what_the_gateway_counts_and_does_not_list_yet_is_not_held_against_what_was_approved(desk: Desk) -> None:
    order = await desk.service.outside.order(60_000)
    first, second = await _parked(desk, order, 30_000, 20_100)
    await desk.service.outside.fault("late_visible:1", order)
    assert (await desk.approved(first)).next == "inspect"
    later = await desk.approved(second)
    assert (later.next, later.code) == ("execute", Code.IN_PROGRESS)
    async with asyncio.timeout(30):
        while later.next == "execute":
            await asyncio.sleep(0.1)
            later = await desk.approved(second)
    assert later.code is Code.OK
    assert (await desk.inspect(first.request_id)).code is Code.OK


async def test_what_the_gateway_counts_and_does_not_list_yet_has_a_new_call_decided_later(desk: Desk) -> None:
    order = await desk.service.outside.order(9_000)
    await desk.service.outside.fault("late_visible:300", order)
    run = await desk.service.open_run(order["customer_id"])
    assert (
        await desk.admit(*await desk.service.input_for(run.run_id, refund_arguments(order, 4_000)))
    ).next == "inspect"
    # 5,000 are left, of which as far as can be told 4,000 may be on their way.
    asked = await desk.service.input_for(run.run_id, refund_arguments(order, 4_900))
    for attempt, pause in enumerate((1, 2, 4, 8, 15), start=1):
        with pytest.raises(ApplicationError) as later:
            await desk.admit(*asked, attempt=attempt)
        assert (later.value.type, later.value.non_retryable) == ("Contended", False)
        assert later.value.next_retry_delay == timedelta(seconds=pause)
    ended = await desk.admit(*asked, attempt=6)
    assert (ended.next, ended.code) == ("settled", Code.NETWORK_UNREACHABLE)


async def test_what_only_waits_for_people_is_in_no_list(desk: Desk) -> None:
    """Nothing of it is on its way, so it is held against others without looking for it at the gateway."""
    order = await desk.service.outside.order(50_000)
    await desk.service.outside.fault("503", order, operation="list", times=100)
    run = await desk.service.open_run(order["customer_id"])
    waits = await desk.admit(*await desk.service.input_for(run.run_id, refund_arguments(order, 30_000)))
    assert waits.code is Code.PENDING_APPROVAL
    more = await desk.admit(*await desk.service.input_for(run.run_id, refund_arguments(order, 20_100)))
    assert more.code is Code.REFUND_EXCEEDS_PAID
    assert (await desk.record(more.request_id)).reply().allowed == {"max_amount_cents": 20_000}


async def test_of_an_order_that_one_refund_has_taken_from_the_rest_can_be_had_at_once(desk: Desk) -> None:
    order = await desk.service.outside.order(9_000)
    run = await desk.service.open_run(order["customer_id"])
    await desk.service.outside.fault("commit_then_drop", order)
    lost = await desk.admit(*await desk.service.input_for(run.run_id, refund_arguments(order, 4_100)))
    assert lost.code is Code.OUTCOME_UNKNOWN
    more = await desk.admit(*await desk.service.input_for(run.run_id, refund_arguments(order, 4_901)))
    assert more.code is Code.REFUND_EXCEEDS_PAID
    assert (await desk.record(more.request_id)).reply().allowed == {"max_amount_cents": 4_900}
    rest = await desk.admit(*await desk.service.input_for(run.run_id, refund_arguments(order, 4_900)))
    assert (rest.next, rest.code) == ("settled", Code.OK)


async def test_what_a_person_found_out_counts_only_for_what_they_were_asked(desk: Desk) -> None:
    _, request_id = await _in_review(desk)
    reviews = desk.service.core.ledger.of((await desk.record(request_id)).tenant).reviews
    about_another = _conclusion(happened=False).model_copy(update={"because": "found_twice"})
    settled, record = await reviews.conclude(request_id, about_another)
    assert (settled, record.review, record.status) == (Settled.NOT_IN_REVIEW, "absent", "outcome_unknown")
