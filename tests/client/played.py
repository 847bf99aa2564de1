"""The client's operations, played without a network: what they ask for, and what they make of the answers."""

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from counterseal_client.core import Flow, Patience, RunCore
from counterseal_client.wire import Answer, NoAnswer, Request

T = TypeVar("T")

ID = "act_" + "0" * 32
LOST, NOT_SENT = NoAnswer("ReadError", sent=True), NoAnswer("ConnectError", sent=False)


class Clock:
    """Moves only when it is told to, and by the pauses that are asked for."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def run(**more: Any) -> RunCore:
    patience = Patience(clock=more.pop("clock", Clock()), jitter=lambda: 0.0, **more)
    return RunCore("a-run-token", patience, "conversation-1")


def play(flow: Flow[T], answers: Sequence[Answer | NoAnswer], clock: Clock | None = None) -> tuple[T, list[Request]]:
    """(what came of it, what was asked for); all answers have to be used. A poll takes as long as it may."""
    asked: list[Request] = []
    remaining = list(answers)
    try:
        made = next(flow)
        while True:
            asked.append(made)
            if clock is not None:
                clock.now += made.pause + (made.seconds - 10.0)
            made = flow.send(remaining.pop(0))
    except StopIteration as ended:
        assert remaining == []
        return ended.value, asked


def reply(code: str = "OK", status: str = "executed", *, http: int = 200, **changes: Any) -> Answer:
    said = {
        "ok": status in ("executed", "pending_approval"),
        "status": status,
        "request_id": ID,
        "code": code,
        "message": "Said.",
        "action": "none",
        "retryable": False,
    } | changes
    return Answer(http, json.dumps(said).encode())


def busy(seconds: int | None = 2) -> Answer:
    return reply("TEMPORARY_FAILURE", "failed", http=503, retryable=True, retry_after_seconds=seconds)


def listed(*extra: str) -> Answer:
    """`GET /v1/tools`: a read, a write, and further writes."""
    tools = [_tool("lookup_orders", writes=False), *(_tool(name) for name in ("issue_refund", *extra))]
    return Answer(200, json.dumps({"tools": tools}).encode())


def _tool(name: str, *, writes: bool = True) -> dict[str, Any]:
    properties = {"order_id": {"type": "string"}, **({"idempotency_key": {"type": "string"}} if writes else {})}
    schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return {
        "name": name,
        "version": "1.0.0",
        "description": "Does.",
        "input_schema": schema,
        "output_schema": {"type": "object"},
        "annotations": {"readOnlyHint": not writes, "destructiveHint": writes, "idempotentHint": True},
    }


def body_of(made: Request) -> dict[str, Any]:
    assert made.body is not None
    return json.loads(made.body)
