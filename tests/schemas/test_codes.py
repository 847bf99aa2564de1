"""The registry of codes: every code can be said, says the same everywhere, and tells an agent what to do."""

import string
from typing import get_args

import pytest
from pydantic import ValidationError

from schemas.codes import REGISTRY, Action, Code, Status
from schemas.guide import GUIDE, example, example_document, page
from schemas.replies import Explanation, Problem, Reply, problem_document, reply_for

BASE = "https://counterseal.example"
SETTLED_WITHOUT = ("refused", "denied", "expired", "failed")
every_code = pytest.mark.parametrize("code", Code)


def values_of(code: Code) -> set[str]:
    """The names that the code's sentence needs."""
    return {name for _, name, _, _ in string.Formatter().parse(REGISTRY[code].message) if name}


def test_the_registry_is_closed() -> None:
    assert set(REGISTRY) == set(Code) == set(GUIDE)


@every_code
def test_a_reply_can_be_made_of_the_values_that_its_sentence_names(code: Code) -> None:
    said = Explanation(values={name: f"<{name}>" for name in values_of(code)})
    reply, spec = reply_for(code, "act_1", said), REGISTRY[code]
    assert all(f"<{name}>" in reply.message for name in values_of(code))
    assert (reply.status, reply.action, reply.retryable) == (spec.status, spec.action, spec.retryable)
    assert reply.http_status == (spec.http_status if spec.http_status >= 400 else None)
    for missing in values_of(code):
        lacking = Explanation(values=dict.fromkeys(values_of(code) - {missing}, 1))
        with pytest.raises(KeyError):
            reply_for(code, "act_1", lacking)


@every_code
def test_status_action_and_http_status_agree(code: Code) -> None:
    spec = REGISTRY[code]
    assert spec.status in get_args(Status)
    assert spec.action in get_args(Action)
    assert reply_for(code, "act_1", GUIDE[code].example).ok == (spec.status in ("executed", "pending_approval"))
    if spec.status == "executed":
        assert spec.http_status == 200
    elif spec.status in ("pending_approval", "in_progress", "outcome_unknown"):
        assert spec.http_status == 202
    else:
        assert spec.http_status >= 400
    assert spec.http_status not in spec.also
    assert all(400 <= status < 500 for status in spec.also)
    if spec.retryable:
        assert spec.action == "retry_after_delay"
    if spec.action in ("stop_and_report", "inspect_outcome", "wait"):
        assert not spec.retryable


@every_code
def test_the_sentence_says_whether_to_send_it_again(code: Code) -> None:
    spec, reply = REGISTRY[code], example(code)
    said = reply.message.lower()
    if spec.status in SETTLED_WITHOUT or spec.http_status == 202:
        verdicts = ("send", "call it again", "end your turn", "hand over", "try a new call")
        assert any(verdict in said for verdict in verdicts)
    if reply.action in ("stop_and_report", "inspect_outcome", "wait"):
        assert "do not" in said
    if spec.status in ("refused", "denied", "expired") and code not in (
        Code.IDEMPOTENCY_CONFLICT,
        Code.REFUND_EXCEEDS_PAID,
        Code.NOT_REFUNDABLE,
        Code.INVALID_STATE,
        Code.RATE_LIMITED,
    ):
        assert "nothing was" in said


@every_code
def test_the_example_is_a_reply_and_a_problem(code: Code) -> None:
    reply, spec, document = example(code), REGISTRY[code], example_document(code, BASE)
    assert Reply.model_validate_json(reply.to_json()) == reply
    assert "{" not in reply.message
    if spec.http_status < 400:
        assert document == reply.model_dump(mode="json", exclude_none=True)
        return
    assert document["type"] == f"{BASE}/codes/{code}"
    assert (document["title"], document["detail"]) == (spec.title, reply.message)
    assert (document["status"], document["http_status"]) == (spec.status, spec.http_status)
    assert reply.model_dump(mode="json", exclude_none=True).items() <= document.items()


def test_a_problem_has_no_other_members() -> None:
    document = problem_document(example(Code.INVALID_INPUT), 413, BASE)
    assert document["http_status"] == 413
    with pytest.raises(ValidationError):
        Problem.model_validate({**document, "internal": "x"})


@every_code
def test_its_page_has_all_of_it(code: Code) -> None:
    spec, text = REGISTRY[code], page(code, BASE)
    assert text.startswith(f"# {code}\n\n{spec.title}. {GUIDE[code].meaning}\n")
    for part in (f"| status | `{spec.status}` |", f"| action | `{spec.action}` |", f"> {spec.message}\n"):
        assert part in text
    assert f"| HTTP status | {spec.http_status}" in text
    assert f"## What to do next\n\n{GUIDE[code].next}\n" in text
    assert f'"code": "{code}"' in text
