"""Spans of the service's own steps. Attributes come from an allow-list; exceptions are named, never quoted."""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime

from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode

from ledger.records import CallRecord
from schemas.calls import Call
from schemas.tools import Manifest

_tracer = trace.get_tracer("counterseal")
_PREFIX = "counterseal."


@contextmanager
def step(name: str, request_id: str) -> Generator[Span]:
    """A span around one step of a call. A failure is recorded by the type of the exception alone."""
    with _tracer.start_as_current_span(
        name,
        attributes={f"{_PREFIX}request_id": request_id},
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except Exception as problem:
            span.set_attribute("error.type", type(problem).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise


def current_trace_id() -> str | None:
    """Of the span that runs, as 32 hexadecimal digits; None where nothing is traced."""
    context = trace.get_current_span().get_span_context()
    return trace.format_trace_id(context.trace_id) if context.is_valid else None


def describe_tool(span: Span, call: Call, manifest: Manifest) -> None:
    """Who calls what; of the arguments those that the manifest lets spans show."""
    binding = call.binding
    shown = {name: call.arguments.get(name) for name in manifest.trace}
    span.set_attributes(
        {f"{_PREFIX}argument.{name}": value for name, value in shown.items() if isinstance(value, str | int)}
    )
    span.set_attributes(
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": manifest.name,
            f"{_PREFIX}tenant": binding.tenant,
            f"{_PREFIX}run_id": binding.run_id,
            f"{_PREFIX}agent_id": binding.agent_id,
            f"{_PREFIX}actor_id": binding.actor_id,
            f"{_PREFIX}tool.name": manifest.name,
            f"{_PREFIX}tool.version": manifest.version,
            f"{_PREFIX}capability_classes": manifest.capability_classes,
            f"{_PREFIX}idempotency_key_hash": call.key_hash,
        }
    )


def describe_outcome(span: Span, record: CallRecord) -> None:
    """Where the call stands."""
    decision = record.details.decision
    found = {
        "status": record.status,
        "code": record.code.value,
        "decision": record.verdict,
        "policy.version": record.policy_version,
        "policy.rule": decision.rule if decision else None,
        "approval.id": record.approval_id,
        "attempt": record.details.effect.attempt if record.details.effect else None,
    }
    span.set_attributes({f"{_PREFIX}{name}": value for name, value in found.items() if value is not None})


def waited(name: str, record: CallRecord, since: datetime, until: datetime) -> None:
    """The wait for a person, as a span of its own, written when it ends."""
    span = _tracer.start_span(name, start_time=_nanoseconds(since))
    span.set_attribute(f"{_PREFIX}request_id", record.request_id)
    describe_outcome(span, record)
    span.end(_nanoseconds(until))


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
