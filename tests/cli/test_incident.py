"""`calls show --incident`: the questions of an incident, answered from the events, with the events that say so."""

import secrets
from datetime import UTC, datetime
from typing import Any

import pytest

from ledger.chain import EventRow
from ledger.keys import MasterKey
from ledger.ledger import Ledger
from ledger.records import Step
from ledger.signing import DecisionSigner, DecisionVerifier
from runtime.cli.incident import Answer, Case, Events, answers
from schemas.calls import RunFacts
from schemas.codes import Code
from schemas.decisions import Approval
from schemas.effects import Effect
from schemas.events import (
    ApprovalGranted,
    ApprovalRequested,
    CallDecided,
    EffectConfirmed,
    EffectFailed,
    EffectIntended,
    EffectUnknown,
    Pruned,
    Recorded,
)
from tests.cli.conftest import MASTER, Run
from tests.ledger.refunds import CATALOG, Refund, decision, exchange, parked

SIGNER, VERIFIER = DecisionSigner(MasterKey(MASTER)), DecisionVerifier.of(MasterKey(MASTER))
QUESTIONS = ["tool", "classes", "policy", "untrusted_content", "private_data", "approval_bound", "repeat"]
EFFECT = Effect(
    request_id="act_1",
    tool="issue_refund",
    operation_id="op_1",
    gateway_key="key_1",
    target={"payment_id": "pay_1", "amount_cents": 25_000},
    intended_at=datetime(2026, 11, 29, 12, tzinfo=UTC),
)
INTENDED = EffectIntended(effect=EFFECT, policy_version="default@2", facts={})
CONFIRMED = EffectConfirmed(operation_id="op_1", remote_id="re_1", result={}, exchange=exchange())


async def approved(ledger: Ledger, **changes: Any) -> Approval:
    """A refund of 250.00 that a person approved by a signed decision."""
    approval = await parked(ledger, **changes)
    made = decision(approval)
    await ledger.approvals.decide(made, SIGNER.sign(made))
    return approval


async def events_of(ledger: Ledger, approval: Approval, *more: Recorded) -> list[tuple[EventRow, Recorded]]:
    """The events of a call, and what else is to have happened to it."""
    await ledger.calls.advance(
        approval.request_id, lambda record, now: Step([e for e in more if not isinstance(e, Pruned)])
    )
    return await ledger.calls.events(approval.request_id)


def answered(events: Events, tool: str = "issue_refund") -> dict[str, Answer]:
    entry = CATALOG.get(tool)
    return {each.question: each for each in answers(Case(events, entry and entry.manifest, VERIFIER))}


def with_run(events: Events, **facts: Any) -> Events:
    """The same call in a run that has done so much before."""
    run = RunFacts(**facts)
    return [(row, e.model_copy(update={"run": run}) if isinstance(e, CallDecided) else e) for row, e in events]


async def test_each_question_is_answered_with_the_events_that_say_so(ledger: Ledger) -> None:
    approval = await approved(ledger)
    found = answered(await events_of(ledger, approval, INTENDED, CONFIRMED))
    assert list(found) == QUESTIONS
    assert found["tool"].said.startswith("issue_refund ")
    assert "support-bot" in found["tool"].said
    assert "money_movement" in found["classes"].said
    assert (found["policy"].verdict, approval.rule in found["policy"].said) == ("yes", True)
    assert "default@2 was asked again" in found["policy"].said
    assert found["untrusted_content"].verdict == "no"
    assert found["private_data"].verdict == "no"
    assert "amount_cents, payment_id went to payments" in found["private_data"].said
    assert found["approval_bound"].verdict == "yes"
    assert approval.action_digest in found["approval_bound"].said
    assert found["repeat"].verdict == "no"
    assert "sent once" in found["repeat"].said
    rows = {row.n: row for row, _ in await ledger.calls.events(approval.request_id)}
    for each in found.values():
        assert each.evidence
        for said in each.evidence:
            row = rows[said.n]
            assert (said.type, said.at, said.digest) == (row.type, row.at, row.hash.hex())


async def test_what_its_run_had_read_is_told(ledger: Ledger) -> None:
    events = await events_of(ledger, await approved(ledger), INTENDED, CONFIRMED)
    found = answered(with_run(events, tools=("lookup_ticket",), touched=("read_private", "read_untrusted")))
    assert found["untrusted_content"].verdict == "yes"
    assert "lookup_ticket" in found["untrusted_content"].said
    assert found["private_data"].verdict == "no", "the tool goes nowhere but to the payment gateway"
    assert answered(_forgotten(events))["untrusted_content"].verdict == "not_known"


def _forgotten(events: Events) -> Events:
    return [(row, e.model_copy(update={"run": None}) if isinstance(e, CallDecided) else e) for row, e in events]


@pytest.mark.parametrize(
    ("touched", "sent", "verdict"),
    [
        (("read_private",), CONFIRMED, "yes"),
        (("read_private",), EffectUnknown(operation_id="op_1", exchange=None, operation="refund"), "yes"),
        ((), CONFIRMED, "no"),
        (
            ("read_private",),
            EffectFailed(operation_id="op_1", code=Code.NETWORK_UNREACHABLE, exchange=exchange("nothing_sent")),
            "no",
        ),
    ],
)
async def test_private_data_can_leave_by_a_tool_that_goes_out(
    ledger: Ledger, touched: tuple[Any, ...], sent: Recorded, verdict: str
) -> None:
    events = with_run(await events_of(ledger, await approved(ledger), INTENDED, sent), touched=touched)
    entry = CATALOG.get("issue_refund")
    assert entry is not None
    outward = entry.manifest.model_copy(update={"capability_classes": ("external_communication",)})
    (found,) = (each for each in answers(Case(events, outward, VERIFIER)) if each.question == "private_data")
    assert found.verdict == verdict


async def test_a_tool_that_was_replaced_is_not_guessed_at(ledger: Ledger) -> None:
    events = with_run(await events_of(ledger, await approved(ledger), INTENDED, CONFIRMED), touched=("read_private",))
    entry = CATALOG.get("issue_refund")
    assert entry is not None
    newer = entry.manifest.model_copy(update={"version": "99.0.0"})
    found = {each.question: each.verdict for each in answers(Case(events, newer, VERIFIER))}
    assert (found["classes"], found["private_data"]) == ("not_known", "not_known")
    assert found["approval_bound"] == "yes"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"action_digest": "0" * 64}, "signed another action"),
        ({"token": "x.y.z"}, "does not verify"),
    ],
)
async def test_an_approval_of_something_else_is_not_bound(ledger: Ledger, change: dict[str, str], problem: str) -> None:
    events = await events_of(ledger, await approved(ledger), INTENDED)
    forged = [(row, e.model_copy(update=change) if isinstance(e, ApprovalGranted) else e) for row, e in events]
    found = answered(forged)["approval_bound"]
    assert (found.verdict, problem in found.said) == ("no", True)


async def test_a_digest_of_another_action_than_was_shown_binds_nothing(ledger: Ledger) -> None:
    approval = await approved(ledger)
    assert approval.action is not None
    other = approval.model_copy(update={"action": approval.action | {"tool": "another_tool"}})
    events = [
        (row, e.model_copy(update={"approval": other}) if isinstance(e, ApprovalRequested) else e)
        for row, e in await events_of(ledger, approval, INTENDED)
    ]
    found = answered(events)["approval_bound"]
    assert (found.verdict, found.said) == ("no", "the digest is not that of the action that was shown")


async def test_what_is_not_kept_is_not_known(ledger: Ledger) -> None:
    events = await events_of(ledger, await approved(ledger), INTENDED, CONFIRMED)
    gone = [(row, Pruned(type=row.type)) for row, _ in events]
    found = answered(gone)
    assert {each.verdict for each in found.values()} == {"not_known"}


async def test_nobody_was_asked_about_a_free_call(ledger: Ledger) -> None:
    record = await Refund(100).admit(ledger)
    found = answered(await ledger.calls.events(record.request_id))
    assert (found["approval_bound"].verdict, found["approval_bound"].said) == ("none", "nobody was asked")


async def test_a_second_send_is_a_repeat(ledger: Ledger) -> None:
    again = INTENDED.model_copy(update={"effect": EFFECT.model_copy(update={"attempt": 2})})
    unknown = EffectUnknown(operation_id="op_1", exchange=exchange("bytes_sent"), operation="refund")
    found = answered(await events_of(ledger, await approved(ledger), INTENDED, unknown, again, CONFIRMED))
    assert found["repeat"].verdict == "yes"
    assert "2 times under one key" in found["repeat"].said


async def test_the_command_takes_a_request_or_a_trace(run: Run, ledger: Ledger) -> None:
    trace_id = secrets.token_hex(16)
    first, second = await approved(ledger, trace_id=trace_id), await parked(ledger, trace_id=trace_id)
    await parked(ledger, trace_id=secrets.token_hex(16))
    ran = await run("calls", "show", "--incident", first.request_id)
    assert ran.status == 0, ran.err
    for asked in ("Was the approval bound to the exact action?", "Yes: ana signed", "hashes holds"):
        assert asked in ran.out
    calls = (await run("calls", "show", "--incident", trace_id, "--json")).json["calls"]
    assert [each["request_id"] for each in calls] == [first.request_id, second.request_id]
    assert [each["question"] for each in calls[0]["answers"]] == QUESTIONS
    assert calls[0]["answers"][0]["evidence"][0]["type"] == "call.proposed"
    unknown = await run("calls", "show", "--incident", secrets.token_hex(16))
    assert (unknown.status, "\n" in unknown.complaint) == (1, False)


async def test_nothing_is_answered_from_a_broken_chain(run: Run, ledger: Ledger) -> None:
    approval = await approved(ledger)
    await ledger.system.execute("ALTER TABLE events DISABLE TRIGGER ALL")
    await ledger.system.execute("UPDATE events SET at = at + interval '1 s' WHERE n = 2")
    ran = await run("calls", "show", "--incident", approval.request_id, "--json")
    assert ran.status == 1
    (call,) = ran.json["calls"]
    assert call["chain"] == {"holds": False, "problem": "event 2 was altered"}
    assert call["answers"] == []
