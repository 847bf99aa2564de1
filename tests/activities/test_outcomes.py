"""What an attempt or a look means for a call, row by row."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from activities.outcomes import after_attempt, after_inspection, after_recheck
from activities.patience import Patience, next_look, next_recheck, verdict_on
from ledger.chain import GENESIS, Head
from ledger.folding import advanced
from ledger.records import CallDetails, CallRecord, Step
from schemas.codes import REGISTRY, Code, Status
from schemas.effects import Absent, Attempt, Confirmed, Effect, Failed, Inspection, ReviewReason, Unknown
from schemas.events import EffectConfirmed
from tests.ledger.refunds import Refund, exchange

REFUND = Refund(6_000)
NOW = datetime(2026, 11, 29, tzinfo=UTC)
EFFECT = Effect(
    request_id=REFUND.request_id,
    tool="issue_refund",
    operation_id="op_1",
    gateway_key="key_1",
    target={},
    intended_at=NOW,
)
PATIENCE = Patience(absence=timedelta(minutes=5), review=timedelta(hours=1), attempts=3)
ABSENT = Absent(exchange=exchange())
UNREADABLE = Unknown(exchange=exchange().model_copy(update={"problem": "http_503"}))
TWICE = Unknown(exchange=exchange().model_copy(update={"problem": "found_twice"}))
REFUSED = Failed(code=Code.REMOTE_REFUSED, exchange=exchange())
BOOKED = datetime(2026, 11, 29, 12, 0, 7, tzinfo=UTC)
CONFIRMED = Confirmed(remote_id="re_1", result={"refund_id": "re_1"}, exchange=exchange(), remote_at=BOOKED)


def _record(status: Status) -> CallRecord:
    call = REFUND.proposed.call
    return CallRecord(
        request_id=call.request_id,
        tenant="acme",
        agent_id="support-bot",
        tool=call.tool,
        workflow_id=call.workflow_id,
        arguments_digest=call.arguments_digest,
        status=status,
        code=Code.IN_PROGRESS if status == "in_progress" else Code.OUTCOME_UNKNOWN,
        verdict="free",
        rule="r",
        policy_version="v",
        approval_id=None,
        operation_id="op_1",
        intended_at=NOW,
        remote_id=None,
        review=None,
        recheck_at=None,
        created_at=NOW,
        updated_at=NOW,
        head=Head(0, GENESIS),
        details=CallDetails(call=call, facts={}, totals={}, effect=EFFECT),
    )


def _after(step: Step, record: CallRecord | None = None) -> tuple[CallRecord, str | None]:
    """The call after a step, and whether what it takes is spent or released now."""
    after, changes = advanced(record or _record("in_progress"), step.events, head=Head(9, GENESIS), at=NOW)
    return after, changes.uses


ATTEMPTS: list[tuple[Attempt, list[str], Status, Code, str | None]] = [
    (CONFIRMED, ["effect.confirmed", "call.settled"], "executed", Code.OK, "spent"),
    (
        Failed(code=Code.REMOTE_REFUSED, exchange=exchange()),
        ["effect.failed", "call.settled"],
        "failed",
        Code.REMOTE_REFUSED,
        "released",
    ),
    (
        Failed(code=Code.NETWORK_UNREACHABLE, exchange=exchange("nothing_sent")),
        ["effect.failed", "call.settled"],
        "failed",
        Code.NETWORK_UNREACHABLE,
        "released",
    ),
    (
        Unknown(exchange=exchange("bytes_sent")),
        ["effect.unknown"],
        "outcome_unknown",
        Code.OUTCOME_UNKNOWN,
        None,
    ),
]


@pytest.mark.parametrize(("outcome", "events", "status", "code", "uses"), ATTEMPTS)
def test_after_an_attempt(outcome: Attempt, events: list[str], status: Status, code: Code, uses: str | None) -> None:
    step = after_attempt(EFFECT, outcome, done="refunded", operation="refund")
    assert [event.type for event in step.events] == events
    assert [each.remote_at for each in step.events if isinstance(each, EffectConfirmed)] in ([], [BOOKED])
    after, used = _after(step)
    assert (after.status, after.code, used) == (status, code, uses)


LOOKS: list[tuple[Status, Inspection, list[str], Status, str | None]] = [
    (
        "outcome_unknown",
        CONFIRMED,
        ["effect.inspected", "effect.confirmed", "call.settled"],
        "executed",
        "spent",
    ),
    # The worker that sent it was lost: that its outcome was unknown is said first.
    (
        "in_progress",
        CONFIRMED,
        ["effect.unknown", "effect.inspected", "effect.confirmed", "call.settled"],
        "executed",
        "spent",
    ),
    (
        "outcome_unknown",
        Failed(code=Code.REMOTE_REFUSED, exchange=exchange()),
        ["effect.inspected", "effect.failed", "call.settled"],
        "failed",
        "released",
    ),
    # Not found once is not absence: nothing is given back.
    ("outcome_unknown", Absent(exchange=exchange()), ["effect.inspected"], "outcome_unknown", None),
    ("in_progress", Absent(exchange=exchange()), ["effect.unknown", "effect.inspected"], "outcome_unknown", None),
    ("outcome_unknown", Unknown(exchange=exchange()), ["effect.inspected"], "outcome_unknown", None),
]


def _after_look(
    found: Inspection,
    *,
    before: Status = "outcome_unknown",
    effect: Effect = EFFECT,
    age: timedelta = timedelta(0),
    until: datetime | None = NOW + timedelta(hours=24),
    review: ReviewReason | None = None,
) -> Step:
    record = replace(_record(before), review=review)
    return after_inspection(
        record,
        effect,
        found,
        PATIENCE,
        may_resend_until=until,
        now=NOW + age,
        done="refunded",
        operation="refund",
        watched=True,
    )


@pytest.mark.parametrize(("before", "found", "events", "status", "uses"), LOOKS)
def test_after_a_look(before: Status, found: Inspection, events: list[str], status: Status, uses: str | None) -> None:
    step = _after_look(found, before=before)
    assert [event.type for event in step.events] == events
    after, used = _after(step, _record(before))
    assert (after.status, used) == (status, uses)


@pytest.mark.parametrize("outcome", [row[0] for row in ATTEMPTS])
def test_every_outcome_has_a_reply(outcome: Attempt) -> None:
    after, _ = _after(after_attempt(EFFECT, outcome, done="refunded", operation="refund"))
    assert after.reply().status == after.status == REGISTRY[after.code].status


def test_an_unknown_outcome_names_the_operation_and_nothing_else() -> None:
    after, _ = _after(after_attempt(EFFECT, Unknown(exchange=exchange("bytes_sent")), done="", operation="refund"))
    reply: dict[str, Any] = after.reply().model_dump(exclude_none=True)
    assert reply["operation"] == "refund"
    assert not reply["ok"]
    assert not reply["retryable"]
    assert set(reply) == {"ok", "status", "request_id", "code", "message", "action", "retryable", "operation"}


def test_what_is_documented_as_not_executed_is_believed_of_a_first_attempt_only() -> None:
    repeat = EFFECT.model_copy(update={"attempt": 2, "sent_again_at": NOW})
    step = after_attempt(repeat, REFUSED, done="", operation="refund")
    after, used = _after(step)
    assert ([event.type for event in step.events], after.status, used) == (["effect.unknown"], "outcome_unknown", None)
    assert _after(after_attempt(repeat, CONFIRMED, done="refunded", operation="refund"))[0].status == "executed"


# What a look found, the effect's age in minutes, its attempts, hours for which its key is known -> what follows.
COURSES: list[tuple[Absent | Unknown, int, int, int | None, str]] = [
    (ABSENT, 0, 1, 24, "wait"),
    (ABSENT, 4, 1, 24, "wait"),
    (ABSENT, 5, 1, 24, "resend"),
    (ABSENT, 60 * 23, 1, 24, "resend"),
    (ABSENT, 60 * 24 - 5, 1, 24, "absent"),
    (ABSENT, 60 * 30, 1, 24, "absent"),
    (ABSENT, 5, 3, 24, "absent"),
    (ABSENT, 5, 1, None, "absent"),
    (UNREADABLE, 5, 1, 24, "wait"),
    (UNREADABLE, 59, 1, 24, "wait"),
    (UNREADABLE, 60, 1, 24, "unreadable"),
    (TWICE, 0, 1, 24, "found_twice"),
]


@pytest.mark.parametrize(("found", "minutes", "attempt", "hours", "follows"), COURSES)
def test_what_follows_from_a_look(
    found: Absent | Unknown, minutes: int, attempt: int, hours: int | None, follows: str
) -> None:
    effect = EFFECT.model_copy(update={"attempt": attempt})
    until = None if hours is None else NOW + timedelta(hours=hours)
    now = NOW + timedelta(minutes=minutes)
    assert verdict_on(found, effect, PATIENCE, may_resend_until=until, now=now) == follows


def test_absence_is_counted_from_the_last_send_and_the_keys_validity_from_the_first() -> None:
    effect = EFFECT.model_copy(update={"attempt": 2, "sent_again_at": NOW + timedelta(hours=1)})
    for minutes, follows in ((64, "wait"), (65, "resend")):
        now = NOW + timedelta(minutes=minutes)
        until = NOW + timedelta(hours=2)
        assert verdict_on(ABSENT, effect, PATIENCE, may_resend_until=until, now=now) == follows
    assert verdict_on(ABSENT, effect, PATIENCE, may_resend_until=NOW + timedelta(minutes=69), now=now) == "absent"


def test_a_person_is_asked_once_and_told_why() -> None:
    step = _after_look(ABSENT, age=timedelta(minutes=6), until=None)
    assert [event.type for event in step.events] == ["effect.inspected", "review.requested"]
    after, used = _after(step, _record("outcome_unknown"))
    assert (after.status, after.review, step.alert, used) == ("outcome_unknown", "absent", "needs_review", None)
    again = _after_look(ABSENT, age=timedelta(minutes=7), until=None, review="absent")
    assert [event.type for event in again.events] == ["effect.inspected"]
    assert again.alert is None


def test_two_effects_of_one_operation_page_an_operator_at_once() -> None:
    step = _after_look(TWICE)
    after, used = _after(step, _record("outcome_unknown"))
    assert (after.review, step.alert, used) == ("found_twice", "found_twice", None)
    assert _after_look(TWICE, age=timedelta(hours=2), review="unreadable").alert == "found_twice"


def test_what_is_found_after_all_ends_the_review() -> None:
    record = replace(_record("outcome_unknown"), review="absent")
    step = _after_look(CONFIRMED, age=timedelta(hours=2), review="absent")
    after, _ = _after(step, record)
    assert after.review is None
    assert after.recheck_at is not None


def _settled(status: Status = "executed", **changes: Any) -> CallRecord:
    record = replace(_record(status), **changes)
    return replace(record, details=record.details.model_copy(update={"result": CONFIRMED.result}))


def _recheck(found: Inspection, status: Status = "executed", **changes: Any) -> Step | None:
    return after_recheck(_settled(status, **changes), EFFECT, found, done="refunded", now=NOW + timedelta(days=2))


def test_a_refund_that_fails_days_later_is_reversed_and_can_be_made_again() -> None:
    step = _recheck(REFUSED, remote_id="re_1")
    assert step is not None
    assert [event.type for event in step.events] == ["effect.reversed", "call.settled"]
    after, used = _after(step, _settled(recheck_at=NOW))
    assert (after.status, after.code, used) == ("failed", Code.REMOTE_REFUSED, "released")
    assert (step.alert, after.recheck_at) == ("effect_reversed", None)


def test_a_confirmed_effect_that_is_still_there_says_nothing_new() -> None:
    step = _recheck(CONFIRMED)
    assert step is not None
    before = _settled()
    after, used = _after(step, before)
    assert ([event.type for event in step.events], step.alert, used) == (["effect.inspected"], None, None)
    assert (after.status, after.details) == ("executed", before.details)
    assert after.recheck_at == NOW + timedelta(days=3)


def test_a_pending_refund_that_went_through_says_so() -> None:
    done = Confirmed(remote_id="re_1", result={"refund_id": "re_1", "status": "succeeded"}, exchange=exchange())
    step = _recheck(done)
    assert step is not None
    after, _ = _after(step, _settled(code=Code.OK))
    assert [event.type for event in step.events] == ["effect.inspected"]
    assert (after.status, after.details.result) == ("executed", done.result)
    assert "refunded" in after.reply().message


def test_a_refund_that_a_person_settled_as_not_made_is_looked_at_until_its_system_says_so() -> None:
    for found, again in ((ABSENT, NOW + timedelta(days=3)), (REFUSED, None)):
        step = _recheck(found, "failed", recheck_at=NOW)
        assert step is not None
        after, used = _after(step, _settled("failed", recheck_at=NOW))
        assert (after.status, after.recheck_at, used) == ("failed", again, None)


@pytest.mark.parametrize(("found", "alert"), [(ABSENT, "effect_missing"), (TWICE, "found_twice"), (UNREADABLE, None)])
def test_a_confirmed_effect_stays_one_whatever_else_is_seen(found: Inspection, alert: str | None) -> None:
    step = _recheck(found)
    assert step is not None
    after, used = _after(step, _settled())
    assert (after.status, used, step.alert) == ("executed", None, alert)


@pytest.mark.parametrize("status", ["failed", "refused"])
def test_what_happened_after_all_counts_whatever_was_said_before(status: Status) -> None:
    step = _recheck(CONFIRMED, status, recheck_at=NOW)
    assert step is not None
    after, used = _after(step, _settled(status))
    assert (after.status, used, step.alert) == ("executed", "spent", "effect_after_all")


def test_a_call_that_was_refused_by_the_gateway_stays_so() -> None:
    assert _recheck(ABSENT, "failed") is None
    assert _recheck(REFUSED, "denied") is None


def test_looks_come_ever_more_seldom_and_one_when_absence_can_first_be_told() -> None:
    ages, age = [0], 0
    while age < 3 * 3600:
        age += next_look(EFFECT, PATIENCE, NOW + timedelta(seconds=age))
        ages.append(age)
    waits = [after - before for before, after in pairwise(ages)]
    assert any(300 <= each <= 301 for each in ages)
    assert max(waits) <= 3601
    assert len([each for each in ages if each <= 300]) <= 12


def test_pending_is_never_let_go_of_and_what_is_complete_is_after_a_month() -> None:
    pending = CONFIRMED.model_copy(update={"result": {"status": "pending"}})
    for days in (0, 1, 10, 100):
        now = NOW + timedelta(days=days)
        again = next_recheck(EFFECT, pending, now)
        assert again is not None
        assert timedelta(0) < again - now <= timedelta(days=1)
    seen, now = [], NOW
    while (due := next_recheck(EFFECT, CONFIRMED, now)) is not None:
        seen.append((due - NOW).days)
        now = due
    assert seen == [1, 3, 7, 14, 30]
