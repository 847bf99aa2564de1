"""What the client asks for and when it asks again, without a network."""

import hashlib
import json
import re
from typing import Any, get_args

import counterseal_client
import pytest
from counterseal_client import Misuse, Reply, UnexpectedAnswer, Unreachable, step_key
from counterseal_client import models as theirs
from counterseal_client.core import Flow, Patience, RunCore, open_run
from counterseal_client.wire import Answer, NoAnswer, base_url
from opentelemetry.sdk.trace import TracerProvider

from schemas.codes import Action, Code, Status
from schemas.replies import Reply as OurReply
from schemas.replies import Verdict
from tests.client.played import ID, LOST, NOT_SENT, Clock, body_of, busy, listed, play, reply, run

REFUND = {"order_id": "ord_1"}
KEY = hashlib.sha256(b"counterseal-step-1\0conversation-1\0refund:ord_1").hexdigest()[:32]


def test_it_knows_what_the_service_says() -> None:
    assert set(get_args(theirs.Code)) == set(Code)
    assert get_args(theirs.Status) == get_args(Status)
    assert get_args(theirs.Action) == get_args(Action)
    assert get_args(theirs.Decision) == get_args(Verdict)
    assert {*Reply.model_fields} - {"known"} == {*OurReply.model_fields}


def test_a_step_is_one_call_whatever_process_does_it() -> None:
    assert step_key("conversation-1", "refund:ord_1") == KEY
    for _ in range(2):
        found, asked = play(run().call("issue_refund", REFUND, step="refund:ord_1"), [listed(), reply()])
        assert found.ok
        assert [made.path for made in asked] == ["/v1/tools", "/v1/tool-calls?wait_seconds=20"]
        assert body_of(asked[1])["arguments"] == {**REFUND, "idempotency_key": KEY}


@pytest.mark.parametrize(("one", "other"), [(("a", "bc"), ("ab", "c")), (("a", "b"), ("b", "a"))])
def test_no_two_steps_are_alike(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert step_key(*one) != step_key(*other)


def test_tools_are_listed_once_and_again_for_what_is_not_among_them() -> None:
    core = run()
    play(core.call("lookup_orders"), [listed(), reply()])
    _, asked = play(core.call("issue_refund", REFUND, step="1"), [reply()])
    assert len(asked) == 1
    _, asked = play(core.call("post_reply", {}, step="2"), [listed("post_reply"), reply()])
    assert [made.method for made in asked] == ["GET", "POST"]


def test_a_read_takes_no_key() -> None:
    _, asked = play(run().call("lookup_orders", REFUND, step="2"), [listed(), reply()])
    assert body_of(asked[1])["arguments"] == REFUND


def test_a_key_of_the_callers_own_needs_no_list() -> None:
    _, asked = play(run().call("issue_refund", REFUND, idempotency_key="ab" * 16), [reply()])
    assert body_of(asked[0])["arguments"]["idempotency_key"] == "ab" * 16


@pytest.mark.parametrize(
    ("arguments", "more", "said"),
    [
        (REFUND, {}, "issue_refund writes: give a step"),
        (REFUND, {"step": "1", "idempotency_key": "ab" * 16}, "not both"),
        (REFUND, {"idempotency_key": "AB" * 16}, "32 lower-case hex"),
        ({**REFUND, "idempotency_key": "ab" * 16}, {}, "is no argument here"),
        (REFUND, {"step": ""}, "step must be"),
        (REFUND, {"step": "a\0b"}, "without NUL"),
        (REFUND, {"step": "\ud800"}, "surrogate"),
        ({"amount": float("nan")}, {"step": "1"}, "as JSON"),
        ({"amount": object()}, {"step": "1"}, "as JSON"),
        (REFUND, {"step": "1", "wait_seconds": 61}, "between 0 and 60"),
        (REFUND, {"step": "1", "traceparent": "00-1-2-3\r\nX: y"}, "traceparent"),
    ],
)
def test_misuse_is_said_before_anything_is_called(arguments: dict[str, Any], more: dict[str, Any], said: str) -> None:
    flow = run().call("issue_refund", arguments, **more)
    with pytest.raises(Misuse, match=said):
        play(flow, [listed()])


def test_a_step_without_a_scope_is_misuse() -> None:
    core = run()
    core.scope = None
    with pytest.raises(Misuse, match="give scope"):
        play(core.call("issue_refund", REFUND, step="1"), [listed()])


@pytest.mark.parametrize("code", Code)
def test_no_code_raises(code: Code) -> None:
    found, _ = play(run().call("lookup_orders"), [listed(), reply(code, "refused", http=422)])
    assert (found.refused, found.settled, found.pending) == (True, True, False)


def test_what_is_newer_than_the_client_is_read() -> None:
    newer = reply("NEW_CODE", "handed_over", http=202, action="wait", ok=True, later={"a": [1]})
    found, _ = play(run().call("lookup_orders"), [listed(), newer])
    assert (found.status, found.pending, found.settled) == ("handed_over", True, False)
    assert "later" not in found.for_model()


def test_what_a_model_is_told_is_compact_and_whole() -> None:
    answered = reply("REFUND_EXCEEDS_PAID", "refused", http=422, allowed={"max_amount_cents": 5}, http_status=422)
    found, _ = play(run().call("lookup_orders"), [listed(), answered])
    assert json.loads(found.for_model()) == {
        "ok": False,
        "status": "refused",
        "request_id": ID,
        "code": "REFUND_EXCEEDS_PAID",
        "message": "Said.",
        "action": "none",
        "retryable": False,
        "allowed": {"max_amount_cents": 5},
    }
    assert ": " not in found.for_model()


def test_a_lost_answer_is_asked_for_again_under_the_same_key() -> None:
    found, asked = play(run().call("issue_refund", REFUND, step="1"), [listed(), LOST, Answer(502, b"<html>"), reply()])
    assert found.ok
    assert len({made.body for made in asked[1:]}) == 1
    assert [made.pause for made in asked] == [0.0, 0.0, 0.1, 0.2]


def test_what_has_no_key_and_is_not_known_to_be_a_read_is_not_repeated() -> None:
    with pytest.raises(Unreachable):
        play(run().call("not_listed"), [listed(), LOST])


@pytest.mark.parametrize(("answer", "sent"), [(LOST, True), (NOT_SENT, False)])
def test_it_gives_up_after_the_tries(answer: NoAnswer, sent: bool) -> None:
    with pytest.raises(Unreachable) as said:
        play(run(tries=2).call("issue_refund", REFUND, step="1"), [listed(), answer, answer])
    assert said.value.sent is sent
    with pytest.raises(UnexpectedAnswer, match="HTTP 503"):
        play(run(tries=1).call("issue_refund", REFUND, step="1"), [listed(), Answer(503, b"")])


def opening() -> Flow[RunCore]:
    more: dict[str, Any] = {"agent_id": "a", "actor_id": "b", "customer_id": "c", "tools": ["issue_refund"]}
    return open_run("a-token", Patience(jitter=lambda: 0.0), scope=None, expires_in_seconds=60, **more)


def test_a_run_is_opened_again_only_while_nothing_was_sent() -> None:
    opened = Answer(201, b'{"run_id": "run_1", "run_token": "secret", "tools": [], "expires_at": "2026", "x": 1}')
    core, asked = play(opening(), [NOT_SENT, opened])
    assert (core.token, len(asked)) == ("secret", 2)
    assert "secret" not in repr(core.opened)
    with pytest.raises(Unreachable):
        play(opening(), [LOST])


def test_a_run_that_was_refused_answers_everything_with_that() -> None:
    core, _ = play(opening(), [reply("TOOL_NOT_AVAILABLE", "refused", http=403)])
    assert core.refusal is not None
    listing, _ = play(core.tools(), [])
    assert (len(listing), listing.refusal) == (0, core.refusal)
    assert play(core.call("issue_refund", REFUND), [])[0] == core.refusal
    assert play(core.wait("act_1"), [])[0].code == "TOOL_NOT_AVAILABLE"
    assert play(core.withdraw("act_1"), [])[0].code == "TOOL_NOT_AVAILABLE"


def test_only_what_may_be_repeated_is_and_no_longer_than_allowed() -> None:
    found, asked = play(run().call("issue_refund", REFUND, step="1"), [listed(), busy(2), reply()])
    assert (found.ok, asked[2].pause, asked[1].body) == (True, 2.0, asked[2].body)
    found, _ = play(run().call("issue_refund", REFUND, step="1"), [listed(), busy(31)])
    assert found.code == "TEMPORARY_FAILURE"
    found, _ = play(run(max_wait=3).call("issue_refund", REFUND, step="1"), [listed(), busy(2), busy(2)])
    assert found.code == "TEMPORARY_FAILURE"
    for seconds in (0, -1):
        busily = [listed(), *[busy(seconds)] * 4]
        found, asked = play(run(max_wait=3).call("issue_refund", REFUND, step="1"), busily)
        assert (found.code, asked[2].pause) == ("TEMPORARY_FAILURE", 1.0), "it is not asked in a tight circle"
    later = reply("NETWORK_UNREACHABLE", "failed", http=503, retry_after_seconds=1, action="retry_after_delay")
    found, _ = play(run().call("issue_refund", REFUND, step="1"), [listed(), later])
    assert found.code == "NETWORK_UNREACHABLE"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, b""),
        Answer(200, b"[]"),
        Answer(200, b'{"status": "executed"}'),
        Answer(302, b""),
        Answer(404, b'{"type": "about:blank", "title": "Not Found", "status": 404, "detail": "a-secret"}'),
        Answer(500, b"\xff"),
    ],
)
def test_what_is_not_the_service_is_named_without_its_words(answer: Answer) -> None:
    with pytest.raises(UnexpectedAnswer) as said:
        play(run().call("issue_refund", REFUND, step="1"), [listed(), answer])
    assert said.value.http_status == answer.http_status
    assert "a-secret" not in str(said.value)


def test_waiting_goes_on_until_the_call_is_over() -> None:
    clock = Clock()
    parked = reply("PENDING_APPROVAL", "pending_approval", action="wait")
    polls = [parked, busy(1), reply("IN_PROGRESS", "in_progress", action="wait"), reply()]
    found, asked = play(run(clock=clock).wait(ID, 300), polls, clock)
    assert found.settled
    waits = [int(re.findall(r"wait_seconds=(\d+)", made.path)[0]) for made in asked]
    assert waits[0] == 60
    assert sum(waits) <= 60 * 4
    assert all(made.pause > 0 for made in asked[1:])


def test_waiting_ends_in_time_with_what_is_known() -> None:
    clock = Clock()
    parked = reply("PENDING_APPROVAL", "pending_approval", action="wait")
    found, asked = play(run(clock=clock).wait(ID, 90), [parked] * 3, clock)
    assert (found.pending, len(asked)) == (True, 3)
    assert clock.now <= 91


def test_waiting_outlasts_a_service_that_is_away_but_not_the_time() -> None:
    clock = Clock()
    found, _ = play(run(clock=clock).wait(ID, 300), [NOT_SENT] * 4 + [reply()], clock)
    assert found.settled
    clock = Clock()
    with pytest.raises(Unreachable):
        play(run(clock=clock).wait(ID, 5), [NOT_SENT] * 3, clock)


def test_a_question_that_is_refused_says_nothing_of_the_call() -> None:
    expired = reply("UNAUTHENTICATED", "refused", http=401, request_id="act_" + "9" * 32)
    for flow in (run().wait(ID), run().status(ID), run().withdraw(ID)):
        found, _ = play(flow, [expired])
        assert (found.known, found.settled, found.pending, found.refused) == (False, False, False, True)


def test_whoever_may_not_ask_learns_nothing_of_a_step_that_may_have_been_done() -> None:
    """The service's own sentence says that nothing was done, which is true of the request and not of the call."""
    expired = reply("UNAUTHENTICATED", "refused", http=401, message="Nothing was done.")
    for answers in ([expired], [listed(), expired]):
        found, _ = play(run().call("issue_refund", REFUND, step="1"), answers)
        assert (found.code, found.known, found.settled, found.refused) == ("UNAUTHENTICATED", False, False, True)
        assert "it may have been done" in found.for_model()
        assert "Nothing was done" not in found.for_model()
    found, _ = play(run().call("lookup_orders"), [listed(), expired])
    assert (found.known, found.message) == (True, "Nothing was done.")


def test_what_may_be_sent_again_is_not_over() -> None:
    found, _ = play(run(max_wait=0).call("issue_refund", REFUND, step="1"), [listed(), busy()])
    assert (found.pending, found.settled, found.refused) == (False, False, True)


def test_a_dry_run_is_neither_pending_nor_over() -> None:
    foreseen = reply("PENDING_APPROVAL", "pending_approval", action="wait", dry_run=True, decision="hold")
    found, asked = play(run().call("issue_refund", REFUND, step="1", dry_run=True), [listed(), foreseen])
    assert (found.pending, found.settled, found.refused, found.decision) == (False, False, False, "hold")
    assert body_of(asked[1])["dry_run"] is True


def test_withdrawing_says_how_the_call_stands() -> None:
    known, asked = play(run().withdraw(ID), [reply("CANCELLED", "cancelled")])
    assert (known.status, asked[0].path) == ("cancelled", f"/v1/tool-calls/{ID}/cancel")
    late, _ = play(run().withdraw(known), [reply("OK", "executed", http=409)])
    assert (late.known, late.status) == (True, "executed")


@pytest.mark.parametrize("asked", ["", "../v1/tools", "act_1?x=1", "act_1#"])
def test_only_ids_are_put_into_paths(asked: str) -> None:
    for operation in (run().wait, run().status, run().withdraw):
        with pytest.raises(Misuse, match="request_id"):
            play(operation(asked), [])


def test_it_is_part_of_the_callers_trace() -> None:
    given = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    _, asked = play(run().call("lookup_orders", traceparent=given), [listed(), reply()])
    assert asked[1].headers["traceparent"] == given
    with TracerProvider().get_tracer("tests").start_as_current_span("a turn") as span:
        _, asked = play(run().call("lookup_orders"), [listed(), reply()])
    assert asked[1].headers["traceparent"].split("-")[1] == f"{span.get_span_context().trace_id:032x}"
    _, asked = play(run().call("lookup_orders"), [listed(), reply()])
    assert "traceparent" not in asked[1].headers


@pytest.mark.parametrize(
    "api", ["", "api", "ftp://x", "http://", "http://u:p@x", "http://x?y", "http://x#y", "http://["]
)
def test_only_a_plain_url_is_an_api(api: str) -> None:
    with pytest.raises(Misuse):
        base_url(api)


def test_each_public_name_is_there_and_no_other() -> None:
    assert {name: getattr(counterseal_client, name).__name__ for name in counterseal_client.__all__} == {
        name: name for name in counterseal_client.__all__
    }
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = counterseal_client.Nothing  # pyright: ignore[reportAttributeAccessIssue]
