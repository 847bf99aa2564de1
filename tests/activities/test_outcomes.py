"""What an attempt or a look means for a call, row by row."""

from datetime import UTC, datetime
from typing import Any

import pytest

from activities.outcomes import after_attempt, after_inspection
from ledger.chain import GENESIS, Head
from ledger.records import CallDetails, CallRecord
from schemas.codes import REGISTRY, Code, Status
from schemas.effects import Absent, Attempt, Confirmed, Effect, Failed, Inspection, Unknown
from schemas.replies import reply_for
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
CONFIRMED = Confirmed(remote_id="re_1", result={"refund_id": "re_1"}, exchange=exchange())


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
        policy_version="v",
        approval_id=None,
        operation_id="op_1",
        intended_at=NOW,
        created_at=NOW,
        updated_at=NOW,
        head=Head(0, GENESIS),
        details=CallDetails(call=call, facts={}, totals={}, effect=EFFECT),
    )


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
    assert (step.status, step.code, step.uses) == (status, code, uses)


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


@pytest.mark.parametrize(("before", "found", "events", "status", "uses"), LOOKS)
def test_after_a_look(before: Status, found: Inspection, events: list[str], status: Status, uses: str | None) -> None:
    step = after_inspection(_record(before), EFFECT, found, done="refunded", operation="refund")
    assert [event.type for event in step.events] == events
    assert (step.status, step.uses) == (status, uses)


@pytest.mark.parametrize("outcome", [row[0] for row in ATTEMPTS])
def test_every_outcome_has_a_reply(outcome: Attempt) -> None:
    step = after_attempt(EFFECT, outcome, done="refunded", operation="refund")
    reply = reply_for(step.code, REFUND.request_id, step.explanation, result=step.result)
    assert reply.status == step.status
    assert REGISTRY[step.code].status == step.status


def test_an_unknown_outcome_names_the_operation_and_nothing_else() -> None:
    step = after_attempt(EFFECT, Unknown(exchange=exchange("bytes_sent")), done="", operation="refund")
    reply: dict[str, Any] = reply_for(step.code, REFUND.request_id, step.explanation).model_dump(exclude_none=True)
    assert reply["operation"] == "refund"
    assert not reply["ok"]
    assert not reply["retryable"]
    assert set(reply) == {"ok", "status", "request_id", "code", "message", "action", "retryable", "operation"}
