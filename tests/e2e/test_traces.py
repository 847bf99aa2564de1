"""A call's trace through the whole stack: from its caller to the gateway, and across the wait for a person."""

import secrets
from datetime import datetime, timedelta
from typing import Any

from tests.e2e.running import Customer, RunningStack
from tests.e2e.spans import Span, Trace, await_spans

NOTE = "a note that no span may hold"
THE_CALLS = ("POST /v1/tool-calls", "counterseal.admit", "approval.wait", "counterseal.execute")
# Of the contract, save those that depend on where the call stands.
ALWAYS = (
    "request_id",
    "run_id",
    "agent_id",
    "actor_id",
    "tenant",
    "tool.name",
    "tool.version",
    "capability_classes",
    "policy.version",
    "policy.rule",
    "decision",
    "approval.id",
    "idempotency_key_hash",
    "attempt",
    "status",
    "code",
    "deduplicated",
    "untrusted_content",
    "redacted",
)


def attributes(span: Span) -> dict[str, Any]:
    return {name.removeprefix("counterseal."): value for name, value in span["attributes"].items()}


def ids(span: Span) -> tuple[str, str]:
    return span["context"]["trace_id"], span["context"]["span_id"]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


class Traced:
    """What a caller with a trace of its own sends."""

    def __init__(self, stack: RunningStack, flags: str = "01") -> None:
        self.stack = stack
        self.trace_id, self.span_id = secrets.token_hex(16), secrets.token_hex(8)
        self.header = f"00-{self.trace_id}-{self.span_id}-{flags}"

    def __enter__(self) -> "Traced":
        self.stack.http.headers["traceparent"] = self.header
        return self

    def __exit__(self, *_: object) -> None:
        del self.stack.http.headers["traceparent"]


def refunded(stack: RunningStack, customer: Customer) -> tuple[dict[str, Any], Traced, Traced, str]:
    """(the approval, the agent's trace, the approver's, the agent's key) of a refund that a person approved."""
    key = secrets.token_hex(16)
    with Traced(stack) as agent:
        parked = customer.refund(31_240, note=NOTE, key=key).json()
        assert parked["status"] == "pending_approval"
    approval = customer.waiting()
    with Traced(stack) as approver:
        assert customer.decide("approve").status_code == 200
    assert customer.progress(parked["request_id"])["status"] == "executed"
    return approval, agent, approver, key


def test_one_trace_leads_from_the_caller_to_the_gateway_and_across_the_wait(stack: RunningStack) -> None:
    customer = stack.order()
    approval, agent, approver, key = refunded(stack, customer)
    trace = await_spans(stack, agent.trace_id, *THE_CALLS, "POST /v1/refunds")
    first = trace.one("POST /v1/tool-calls")
    assert trace.roots(agent.span_id) == [], "each span's parent is in the trace"
    assert first["parent_id"] == f"0x{agent.span_id}"
    for name in ("counterseal.admit", "approval.wait", "counterseal.execute"):
        assert trace.one(name)["parent_id"] == first["context"]["span_id"]
    assert trace.one("POST /v1/refunds")["parent_id"] == trace.one("counterseal.execute")["context"]["span_id"]
    assert trace.one("POST /v1/refunds")["kind"] == "SpanKind.CLIENT"
    _says_all(trace, approval)
    _tells_no_secret(
        trace, [NOTE, key, customer.token, stack.approver()["token"], stack.info["service_token"], "31240"]
    )
    _is_decided_in_a_trace_of_its_own(stack, trace, approval, approver)


def _says_all(trace: Trace, approval: dict[str, Any]) -> None:
    for name in THE_CALLS:
        told = attributes(trace.one(name))
        assert not set(ALWAYS) - told.keys(), name
        assert (told["gen_ai.operation.name"], told["gen_ai.tool.name"]) == ("execute_tool", "issue_refund")
        assert told["approval.id"] == approval["approval_id"]
        assert (told["policy.rule"], told["decision"]) == (approval["rule"], "hold")
        assert (told["deduplicated"], told["untrusted_content"], told["redacted"]) == (False, False, False)
    states = {name: (told["status"], told["attempt"]) for name in THE_CALLS if (told := attributes(trace.one(name)))}
    assert states == {
        "POST /v1/tool-calls": ("pending_approval", 0),
        "counterseal.admit": ("pending_approval", 0),
        "approval.wait": ("in_progress", 1),
        "counterseal.execute": ("executed", 1),
    }
    # What is done within a step is said to be of its call.
    assert attributes(trace.one("POST /v1/refunds"))["request_id"] == approval["request_id"]


def _tells_no_secret(trace: Trace, secrets_: list[str]) -> None:
    assert [each for each in secrets_ if each in trace.text] == []
    named = {name for span in trace.spans for name in span["attributes"]}
    assert not {each for each in named if "query" in each or "header" in each or "url.full" in each or "body" in each}
    assert all(span["events"] == [] for span in trace.spans), "exceptions are events, with their texts"
    assert all("?" not in str(value) for span in trace.spans for value in span["attributes"].values())


def _is_decided_in_a_trace_of_its_own(
    stack: RunningStack, trace: Trace, approval: dict[str, Any], approver: Traced
) -> None:
    decided = await_spans(stack, approver.trace_id, "POST /v1/approvals/{approval_id}/decision")
    request = decided.one("POST /v1/approvals/{approval_id}/decision")
    assert attributes(request)["approval.id"] == approval["approval_id"]
    assert "counterseal.execute" not in decided.names
    wait = trace.one("approval.wait")
    (link,) = wait["links"]
    assert (link["context"]["trace_id"], link["context"]["span_id"]) == ids(request)
    # From when it was asked until it was recorded, which is within the approver's request.
    assert abs(at(wait["start_time"]) - at(approval["requested_at"])) < timedelta(seconds=1)
    assert at(request["start_time"]) <= at(wait["end_time"]) <= at(request["end_time"])


def test_a_call_that_is_sent_again_says_so_in_its_own_trace(stack: RunningStack) -> None:
    customer, key = stack.order(), secrets.token_hex(16)
    with Traced(stack) as first:
        done = customer.refund(4_999, key=key).json()
    with Traced(stack) as again:
        assert customer.refund(4_999, key=key).json() == done
    repeated = attributes(await_spans(stack, again.trace_id, "POST /v1/tool-calls").one("POST /v1/tool-calls"))
    assert (repeated["deduplicated"], repeated["request_id"]) == (True, done["request_id"])
    trace = await_spans(stack, first.trace_id, "POST /v1/tool-calls", "counterseal.admit", "POST /v1/refunds")
    assert attributes(trace.one("counterseal.admit"))["deduplicated"] is False


def test_what_the_caller_does_not_sample_is_not_exported(stack: RunningStack) -> None:
    """As are all spans of its trace, in each process; what came after it is there."""
    customer = stack.order()
    with Traced(stack, flags="00") as unsampled:
        assert customer.refund(4_999).json()["status"] == "executed"
    with Traced(stack) as sampled:
        assert customer.refund(3_999).json()["status"] == "executed"
    await_spans(stack, sampled.trace_id, "POST /v1/tool-calls", "counterseal.admit", "POST /v1/refunds")
    with_it = [file.read_text() for file in (stack.data / "traces").glob("*.jsonl")]
    assert not any(unsampled.trace_id in text for text in with_it)
