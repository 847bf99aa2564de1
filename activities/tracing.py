"""Spans of the service's own steps. Attributes come from an allow-list; exceptions are named, never quoted."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Literal

from opentelemetry import metrics, trace
from opentelemetry.context import Context, get_current
from opentelemetry.trace import Link, Span, SpanContext, Status, StatusCode, TraceFlags
from structlog.contextvars import bound_contextvars

from ledger.records import CallRecord
from schemas.calls import Call, RunFacts
from schemas.codes import REGISTRY, Code
from schemas.decisions import HumanDecision
from schemas.tools import Manifest

_tracer = trace.get_tracer("counterseal")
_WAITS = metrics.get_meter("counterseal").create_histogram(
    "counterseal.approval.wait",
    unit="s",
    description="How long calls waited for a person, by tool and by how they stood when that ended",
    # From half a minute to a week.
    explicit_bucket_boundaries_advisory=(30, 60, 120, 300, 600, 1800, 3600, 7200, 14_400, 28_800, 86_400, 604_800),
)
PREFIX = "counterseal."
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
# What the running step is part of: what goes on beside the step is no part of it.
_around: ContextVar[Context | None] = ContextVar("around", default=None)

StepSpan = Literal[
    "counterseal.admit",
    "counterseal.execute",
    "counterseal.inspect",
    "counterseal.resend",
    "counterseal.deny",
    "counterseal.expire",
    "counterseal.withdraw",
    "counterseal.start_again",
]


@contextmanager
def step(name: StepSpan, request_id: str) -> Generator[Span]:
    """A span around one step of a call, whose id log lines get too. A failure is recorded by the type of the exception
    alone."""
    outer = _around.set(get_current())
    try:
        with (
            bound_contextvars(request_id=request_id),
            _tracer.start_as_current_span(
                name,
                attributes={f"{PREFIX}request_id": request_id},
                record_exception=False,
                set_status_on_exception=False,
            ) as span,
        ):
            try:
                yield span
            except Exception as problem:
                span.set_attribute("error.type", type(problem).__name__)
                span.set_status(Status(StatusCode.ERROR))
                raise
    finally:
        _around.reset(outer)


def current_trace_id() -> str | None:
    """Of the span that runs, as 32 hexadecimal digits; None where nothing is traced."""
    context = trace.get_current_span().get_span_context()
    return trace.format_trace_id(context.trace_id) if context.is_valid else None


def current_traceparent() -> str | None:
    """The span that runs, as https://www.w3.org/TR/trace-context/#traceparent-header; None where nothing is traced."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    span_id = trace.format_span_id(context.span_id)
    return f"00-{trace.format_trace_id(context.trace_id)}-{span_id}-{context.trace_flags:02x}"


def describe_tool(span: Span, call: Call, manifest: Manifest) -> None:
    """Who calls what; of the arguments those that the manifest lets spans show."""
    binding = call.binding
    shown = {name: call.arguments.get(name) for name in manifest.trace}
    span.set_attributes(
        {f"{PREFIX}argument.{name}": value for name, value in shown.items() if isinstance(value, str | int)}
    )
    span.set_attributes(
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": manifest.name,
            f"{PREFIX}request_id": call.request_id,
            f"{PREFIX}tenant": binding.tenant,
            f"{PREFIX}run_id": binding.run_id,
            f"{PREFIX}agent_id": binding.agent_id,
            f"{PREFIX}actor_id": binding.actor_id,
            f"{PREFIX}tool.name": manifest.name,
            f"{PREFIX}tool.version": call.tool_version,
            f"{PREFIX}capability_classes": manifest.capability_classes,
            f"{PREFIX}idempotency_key_hash": call.key_hash,
            f"{PREFIX}redacted": not call.arguments.keys().isdisjoint(manifest.redact),
        }
    )


def describe_outcome(span: Span, record: CallRecord, *, deduplicated: bool = False) -> None:
    """Where the call stands. `deduplicated`: it was asked for again under its key, and this answers that."""
    details = record.details
    found = {
        "status": record.status,
        "code": record.code.value,
        "decision": record.verdict,
        "policy.version": record.policy_version,
        "policy.rule": details.decision.rule if details.decision else None,
        "approval.id": record.approval_id,
        # None was made yet of a call that waits, or never came so far.
        "attempt": details.effect.attempt if details.effect else 0,
        "deduplicated": deduplicated,
        "untrusted_content": None if details.run is None else read_untrusted(details.run),
    }
    span.set_attributes({f"{PREFIX}{name}": value for name, value in found.items() if value is not None})


def describe(span: Span, record: CallRecord, manifest: Manifest | None, *, deduplicated: bool = False) -> None:
    """All that spans say of a call; less where its tool is no longer there (`manifest` is None)."""
    if manifest is not None:
        describe_tool(span, record.details.call, manifest)
    describe_outcome(span, record, deduplicated=deduplicated)


def describe_decision(span: Span, decision: HumanDecision) -> None:
    """Of the request that a person decides with, which is in a trace of its own: what they decided, by its ids."""
    span.set_attributes(
        {
            f"{PREFIX}request_id": decision.request_id,
            f"{PREFIX}approval.id": decision.approval_id,
            f"{PREFIX}approval.verdict": decision.verdict,
        }
    )


def describe_request(span: Span, request_id: str, code: Code | None = None) -> None:
    """Of a request that is about a call, or was refused before it became one: by which id it is found elsewhere."""
    span.set_attribute(f"{PREFIX}request_id", request_id)
    if code is not None:
        span.set_attributes({f"{PREFIX}status": REGISTRY[code].status, f"{PREFIX}code": code.value})


def read_untrusted(run: RunFacts) -> bool:
    """Whether a run has read what others than its operators can have written."""
    return "read_untrusted" in run.touched


def waited(
    record: CallRecord,
    manifest: Manifest | None,
    since: datetime,
    until: datetime,
    decided_in: str | None = None,
) -> None:
    """The wait for a person, as a span of its own beside the step that ends it, written when it has ended.

    `decided_in` is the `traceparent` of the request that brought the decision, a trace of the approver's own: it is
    linked. Whatever else it is, is left out: it comes with a signal that anybody may have sent.
    """
    _WAITS.record(max(since, until).timestamp() - since.timestamp(), {"tool": record.tool, "status": record.status})
    span = _tracer.start_span(
        "approval.wait", context=_around.get(), links=_links(decided_in), start_time=_nanoseconds(since)
    )
    describe(span, record, manifest)
    span.end(_nanoseconds(max(since, until)))


def _links(traceparent: str | None) -> list[Link]:
    found = _TRACEPARENT.fullmatch(traceparent or "")
    if found is None:
        return []
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    context = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return [Link(context)] if context.is_valid else []


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
