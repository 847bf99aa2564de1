"""The checker sees every kind of violation, and none where there is none."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.checking import RULES, check
from tests.chaos.evidence import Call, Effect, Evidence, Limits, Operation
from tests.chaos.sound import decision, effect_of, events, refund, refused, sound, told, unknown

Spoil = Callable[[Evidence], Evidence]


def with_calls(evidence: Evidence, *more: Call, effects: Sequence[Effect] = ()) -> Evidence:
    return replace(evidence, calls=[*evidence.calls, *more], effects=[*evidence.effects, *effects])


def with_call(evidence: Evidence, number: int, **changes: Any) -> Evidence:
    calls = list(evidence.calls)
    calls[number] = replace(calls[number], **changes)
    return replace(evidence, calls=calls)


def with_effect(evidence: Evidence, number: int, **changes: Any) -> Evidence:
    effects = list(evidence.effects)
    effects[number] = replace(effects[number], **changes)
    return replace(evidence, effects=effects)


def and_then(call: Call, *more: tuple[str, dict[str, Any]], before: int | None = None) -> Call:
    """The call with further events, at the end or at a place."""
    had = [(event.type, event.body) for event in call.events]
    place = len(had) if before is None else before
    return replace(call, events=events(*had[:place], *more, *had[place:]))


def intent(call: Call, **changes: Any) -> tuple[str, dict[str, Any]]:
    return "effect.intended", {"effect": {**call.intents[0], **changes}}


def without(call: Call, type_: str) -> Call:
    return replace(call, events=events(*((each.type, each.body) for each in call.events if each.type != type_)))


def repeated_effect(evidence: Evidence) -> Evidence:
    again = replace(evidence.effects[0], refund_id="re_again", idempotency_key="another")
    return replace(evidence, effects=[*evidence.effects, again], captured={**evidence.captured, "pay_one": 5_000})


def repeated_key(evidence: Evidence) -> Evidence:
    return with_effect(evidence, 1, idempotency_key=evidence.effects[0].idempotency_key)


def repeated_change(evidence: Evidence) -> Evidence:
    return replace(evidence, operations=[*evidence.operations, *evidence.operations])


def late_intent(evidence: Evidence) -> Evidence:
    return with_effect(evidence, 0, at="2026-11-30T12:00:01.000000Z")


def settled_otherwise(evidence: Evidence) -> Evidence:
    call = evidence.calls[0]
    rest = [(each.type, each.body) for each in call.events[:-1]]
    failed = replace(call, status="failed", events=events(*rest, ("call.settled", {"status": "failed"})))
    return replace(evidence, calls=[failed, *evidence.calls[1:]])


def settled_change_otherwise(evidence: Evidence) -> Evidence:
    return with_call(evidence, 5, status="failed")


def over_refunded_outside(evidence: Evidence) -> Evidence:
    return replace(evidence, captured={**evidence.captured, "pay_one": 899})


def over_refunded_in_the_ledger(evidence: Evidence) -> Evidence:
    return replace(evidence, captured={**evidence.captured, "pay_lost": 899})


def voided_without_reason(evidence: Evidence) -> Evidence:
    said = {"values": {"because": "more than can be refunded: it is more than is left"}}
    call = replace(refused("room", code="APPROVAL_VOID"), run_id="run_7")
    settled = ("call.settled", {"status": "refused", "explanation": said})
    voided = replace(call, events=and_then(without(call, "call.settled"), settled).events)
    return replace(with_calls(evidence, voided), captured={**evidence.captured, "ord_room": 900})


def over_the_run(evidence: Evidence) -> Evidence:
    return with_call(with_call(evidence, 3, run_id="run_1"), 2, run_id="run_1")


def over_the_hour(evidence: Evidence) -> Evidence:
    more = refund("three", run_id="run_4", minute=59)
    captured = {**evidence.captured, "pay_three": 900}
    return replace(with_calls(evidence, more, effects=[effect_of(more)]), captured=captured)


def unapproved(evidence: Evidence) -> Evidence:
    return replace(with_call(evidence, 2, events=without(evidence.calls[2], "approval.granted").events), people=[])


def approved_too_late(evidence: Evidence) -> Evidence:
    call = without(evidence.calls[2], "approval.granted")
    return with_call(evidence, 2, events=and_then(call, ("approval.granted", {"approval_id": "apr_large"})).events)


def decided_twice(evidence: Evidence) -> Evidence:
    granted = ("approval.granted", {"approval_id": "apr_large"})
    return with_call(evidence, 2, events=and_then(evidence.calls[2], granted, before=3).events)


def denied_and_sent(evidence: Evidence) -> Evidence:
    denied = ("approval.denied", {"approval_id": "apr_one"})
    return with_call(evidence, 0, events=and_then(evidence.calls[0], denied, before=2).events)


def approved_and_forgotten(evidence: Evidence) -> Evidence:
    call = evidence.calls[2]
    waiting = replace(call, status="pending_approval", events=call.events[:3])
    calls = [*evidence.calls[:2], waiting, *evidence.calls[3:]]
    agents = [told(call) for call in calls]
    return replace(evidence, calls=calls, effects=evidence.effects[:2], agents=agents)


def stuck(evidence: Evidence) -> Evidence:
    return with_calls(evidence, replace(refund("stuck", run_id="run_9"), status="in_progress", tool="cancel_order"))


def broken_numbers(evidence: Evidence) -> Evidence:
    call = evidence.calls[0]
    return with_call(evidence, 0, events=(*call.events[:1], *call.events[2:]))


def broken_links(evidence: Evidence) -> Evidence:
    call = evidence.calls[0]
    forged = replace(call.events[1], previous="another hash")
    return with_call(evidence, 0, events=(call.events[0], forged, *call.events[2:]))


def another_key(evidence: Evidence) -> Evidence:
    call = evidence.calls[0]
    again = intent(call, gateway_key="another gateway key")
    return with_call(evidence, 0, events=and_then(call, again, before=3).events)


def another_operation(evidence: Evidence) -> Evidence:
    call = evidence.calls[0]
    return with_call(evidence, 0, events=and_then(call, intent(call, operation_id="op_other"), before=3).events)


def shared_gateway_key(evidence: Evidence) -> Evidence:
    call = evidence.calls[3]
    shared = intent(call, gateway_key=evidence.calls[0].intents[0]["gateway_key"])
    return with_call(evidence, 3, events=and_then(without(call, "effect.intended"), shared, before=2).events)


def one_key_two_calls(evidence: Evidence) -> Evidence:
    return with_calls(evidence, replace(refused("one"), request_id="act_other"))


def settled_twice(evidence: Evidence) -> Evidence:
    return with_call(evidence, 0, events=and_then(evidence.calls[0], ("call.settled", {"status": "executed"})).events)


def reversed_and_standing(evidence: Evidence) -> Evidence:
    undone = ("effect.reversed", {}), ("call.settled", {"status": "failed"})
    return with_call(evidence, 0, events=and_then(evidence.calls[0], *undone).events)


def told_of(evidence: Evidence, *more: dict[str, Any]) -> Evidence:
    return replace(evidence, agents=[*evidence.agents, *more])


def both_counted(evidence: Evidence) -> Evidence:
    call = evidence.calls[2]
    return replace(evidence, people=[decision(call), decision(call, "deny")])


ONE = sound().calls[0]
SPOILED: dict[str, tuple[Spoil, str]] = {
    "an effect twice": (repeated_effect, "an effect happened more than once"),
    "a gateway key twice": (repeated_key, "an effect happened more than once"),
    "a change twice": (repeated_change, "an effect happened more than once"),
    "an effect nobody recorded": (
        lambda e: with_effect(e, 0, operation_id="op_unheard"),
        "an effect that no call intended",
    ),
    "an effect without an operation": (
        lambda e: with_effect(e, 0, operation_id=None),
        "an effect that no call intended",
    ),
    "a change nobody recorded": (
        lambda e: replace(e, operations=[*e.operations, Operation("ord_x", None, "cancel")]),
        "an effect that no call intended",
    ),
    "another amount": (lambda e: with_effect(e, 0, amount=901), "an effect is not the one that was intended"),
    "another payment": (
        lambda e: with_effect(e, 1, payment_id="pay_large"),
        "an effect is not the one that was intended",
    ),
    "another currency": (lambda e: with_effect(e, 0, currency="EUR"), "an effect is not the one that was intended"),
    "another gateway key": (
        lambda e: with_effect(e, 0, idempotency_key="another"),
        "an effect is not the one that was intended",
    ),
    "sent before it was intended": (late_intent, "an effect happened before its intent"),
    "failed and standing": (settled_otherwise, "an effect stands, and its call ended without one"),
    "a change failed and standing": (settled_change_otherwise, "an effect stands, and its call ended without one"),
    "executed without effect": (lambda e: replace(e, effects=e.effects[1:]), "an executed call without an effect"),
    "a change without effect": (lambda e: replace(e, operations=[]), "an executed call without an effect"),
    "failed later and not known": (
        lambda e: with_effect(e, 0, status="failed"),
        "a refund failed later, and the ledger does not know",
    ),
    "reversed and standing": (reversed_and_standing, "a reversed effect stands"),
    "over-refunded outside": (over_refunded_outside, "more was refunded than was paid"),
    "over-refunded in the ledger": (over_refunded_in_the_ledger, "more was refunded than was paid"),
    "refused for want of what is there": (
        lambda e: replace(e, captured={**e.captured, "ord_much": 900}),
        "a refund was refused for want of what was there",
    ),
    "voided for want of what is there": (
        voided_without_reason,
        "a refund was refused for want of what was there",
    ),
    "limit of a run": (over_the_run, "the limit of a run was exceeded"),
    "limit of an hour": (over_the_hour, "the limit of an hour was exceeded"),
    "unapproved": (unapproved, "sent without the approval that it needs"),
    "approved too late": (approved_too_late, "sent without the approval that it needs"),
    "approved by one person of two": (
        lambda e: replace(e, limits=replace(e.limits, four_eyes=29_999)),
        "sent without the second person that it needs",
    ),
    "decided twice": (decided_twice, "an approval was decided more than once"),
    "denied and sent": (denied_and_sent, "sent although it was denied, expired or withdrawn"),
    "withdrawn and sent": (
        lambda e: with_call(e, 0, status="cancelled"),
        "sent although it was denied, expired or withdrawn",
    ),
    "approved and forgotten": (approved_and_forgotten, "approved, and neither settled nor in review"),
    "stuck": (stuck, "a call never came to rest"),
    "unknown and nobody asked": (
        lambda e: with_call(e, 3, events=unknown("lost", review=False).events),
        "an outcome is unknown, and nobody was asked",
    ),
    "a review without an alert": (lambda e: with_call(e, 3, alerts=()), "a review without an alert"),
    "an event is missing": (broken_numbers, "a call's chain of events is broken"),
    "an event follows another": (broken_links, "a call's chain of events is broken"),
    "the export says so": (lambda e: with_call(e, 0, chain_holds=False), "a call's chain of events is broken"),
    "re-sent under another key": (another_key, "a call was sent under more than one key"),
    "re-sent as another operation": (another_operation, "a call was sent under more than one key"),
    "a gateway key of two calls": (shared_gateway_key, "a gateway key was used by more than one call"),
    "executed without an intent": (
        lambda e: with_call(e, 0, events=without(ONE, "effect.intended").events),
        "executed without an intent",
    ),
    "settled twice": (settled_twice, "a call settled more than once"),
    "one key, two calls": (one_key_two_calls, "one idempotency key became more than one call"),
    "told executed, ledger says failed": (
        settled_otherwise,
        "an agent was told another end than the ledger's",
    ),
    "told failed, ledger says executed": (
        lambda e: told_of(e, told(ONE, status="failed", code="REMOTE_REFUSED")),
        "an agent was told another end than the ledger's",
    ),
    "told of an unknown call": (
        lambda e: told_of(e, told(refund("unheard"), status="in_progress", code="IN_PROGRESS")),
        "an agent was told of a call that the ledger does not have",
    ),
    "told of another call": (
        lambda e: told_of(e, {**told(ONE), "arguments": {**ONE.arguments, "amount_cents": 1}}),
        "an agent was told of another call than it asked for",
    ),
    "told of another run's call": (
        lambda e: told_of(e, {**told(ONE), "run_id": "run_2"}),
        "an agent was told of another call than it asked for",
    ),
    "told of another amount": (
        lambda e: told_of(e, told(ONE, result={"amount_cents": 901})),
        "an agent was told of another amount than it asked for",
    ),
    "one key, two answers": (
        lambda e: told_of(e, {**told(e.calls[1]), "arguments": ONE.arguments}),
        "the answers to one key are about more than one call",
    ),
    "a dry run that ran": (
        lambda e: told_of(e, {**told(ONE), "dry_run": True}),
        "a dry run became a call",
    ),
    "two decisions counted": (both_counted, "two people were told that their decision counts"),
    "a decision that is lost": (
        lambda e: replace(e, people=[decision(e.calls[4])]),
        "a person was told of a decision that the ledger does not have",
    ),
}


def test_sound_evidence_has_no_violation() -> None:
    assert check(sound()) == []


@pytest.mark.parametrize(("spoil", "what"), SPOILED.values(), ids=SPOILED)
def test_each_violation_is_seen(spoil: Spoil, what: str) -> None:
    assert what in {violation.what for violation in check(spoil(sound()))}


def test_every_rule_is_broken_by_some_of_these() -> None:
    seen = {rule for spoil, _ in SPOILED.values() for rule in RULES if list(rule(spoil(sound())))}
    assert seen == set(RULES)


def test_what_may_happen_is_no_violation() -> None:
    evidence = sound()
    resent = and_then(ONE, intent(ONE), before=3)
    undone = and_then(evidence.calls[1], ("effect.reversed", {}), ("call.settled", {"status": "failed"}))
    calls = [resent, replace(undone, status="failed"), *evidence.calls[2:]]
    evidence = with_effect(replace(evidence, calls=calls), 1, status="failed")
    edge = told(refund("edge"), status="refused", code="IDEMPOTENCY_CONFLICT")
    dry = {**told(refund("dry"), dry_run=True), "dry_run": True}
    looked = {"kind": "looked", "run_id": "run_1", "request_id": "act_one", "http": 200, "reply": told(ONE)["reply"]}
    lost = {"kind": "lost", "problem": "ReadError"}
    later = decision(evidence.calls[2], "deny", http=409)
    told_all = told_of(evidence, edge, dry, looked, lost, told(ONE))
    assert check(replace(told_all, people=[*evidence.people, later])) == []


def test_an_hour_is_an_hour() -> None:
    evidence = over_the_hour(sound())
    later = evidence.calls[-1]
    shifted = tuple(replace(event, at=event.at.replace("T12:59", "T13:01")) for event in later.events)
    effects = [*evidence.effects[:-1], replace(evidence.effects[-1], at="2026-11-30T13:02:00.000000Z")]
    moved = replace(evidence, calls=[*evidence.calls[:-1], replace(later, events=shifted)], effects=effects)
    assert check(moved) == []


def test_an_export_that_was_cut_off_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(
        "tools: {issue_refund: {thresholds: {approval_cents: 5, four_eyes_cents: 7}, limits:"
        " [{name: refunds_per_run, max: 1}, {name: refunds_per_hour, max: 2}]}}"
    )
    (tmp_path / "ledger.jsonl").write_text('{"record": "end", "calls": 0}\n')
    assert Evidence.of(tmp_path).limits == Limits(1, 2, 5, 7)
    for broken in ("", '{"record": "end", "calls": 1}\n'):
        (tmp_path / "ledger.jsonl").write_text(broken)
        with pytest.raises(ValueError, match="export"):
            Evidence.of(tmp_path)
