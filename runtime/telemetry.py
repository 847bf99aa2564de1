"""Traces: OTLP by the standard OTEL_ variables, and a JSON-lines file where one is asked for."""

import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util import ns_to_iso_str
from opentelemetry.trace import SpanContext
from temporalio.contrib.opentelemetry import ReplaySafeTracerProvider, create_tracer_provider

from activities.tracing import PREFIX

_OTLP = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_trace_id: ContextVar[int | None] = ContextVar("trace_id", default=None)
# What says of a call whose it is; the rest of its attributes changes while it goes on.
_OF_THE_CALL = ("gen_ai.", PREFIX)


def start_tracing(service: str, traces_file: Path | None) -> Callable[[], None]:
    """Install the process's tracer provider; returns what flushes and stops it.

    Nothing is exported unless OTEL_EXPORTER_OTLP_ENDPOINT (or the traces one) or `traces_file` is set. Whether a trace
    is sampled its caller says, or OTEL_TRACES_SAMPLER.
    """
    provider = tracer_provider(Resource.create({"service.name": f"counterseal-{service}"}))
    if any(os.environ.get(name) for name in _OTLP):
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    if traces_file is not None:
        traces_file.parent.mkdir(parents=True, exist_ok=True)
        lines = traces_file.open("a", encoding="utf-8")
        provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(out=lines, formatter=span_line)))
    trace.set_tracer_provider(provider)
    return provider.shutdown


def tracer_provider(resource: Resource | None = None) -> ReplaySafeTracerProvider:
    """What makes the service's spans, and exports none."""
    provider = create_tracer_provider(resource=resource, id_generator=_TraceIds())
    provider.add_span_processor(_Inheritance())
    return provider


@contextmanager
def going_on(trace_id: str | None) -> Generator[None]:
    """A span without a parent that starts here belongs to this trace (32 hexadecimal digits); with None, to a new one.

    For what takes a call up of which nothing but the ledger knows any more: the span that its trace began with is not
    known there.
    """
    token = _trace_id.set(None if trace_id is None else int(trace_id, 16))
    try:
        yield
    finally:
        _trace_id.reset(token)


class _TraceIds(RandomIdGenerator):
    def generate_trace_id(self) -> int:
        return _trace_id.get() or super().generate_trace_id()


class _Inheritance(SpanProcessor):
    """What is done within a step of a call, such as an exchange with a remote system, is said to be of that call."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        parent = trace.get_current_span(parent_context)
        inherited = getattr(parent, "attributes", None)
        if span.is_recording() and inherited:
            given = span.attributes or {}
            span.set_attributes(
                {
                    name: value
                    for name, value in inherited.items()
                    if name.startswith(_OF_THE_CALL) and name not in given
                }
            )


def span_line(span: ReadableSpan) -> str:
    """What `span.to_json()` says, in a line. That one writes the resource out and reads it back for every span."""
    context, parent = span.get_span_context(), span.parent
    status = {"status_code": span.status.status_code.name}
    if span.status.description:
        status["description"] = span.status.description
    said = {
        "name": span.name,
        "context": None if context is None else _context(context),
        "kind": str(span.kind),
        "parent_id": None if parent is None else f"0x{trace.format_span_id(parent.span_id)}",
        "start_time": _instant(span.start_time),
        "end_time": _instant(span.end_time),
        "status": status,
        "attributes": dict(span.attributes or {}),
        "events": [
            {"name": each.name, "timestamp": _instant(each.timestamp), "attributes": dict(each.attributes or {})}
            for each in span.events
        ],
        "links": [
            {"context": _context(each.context), "attributes": dict(each.attributes or {})} for each in span.links
        ],
        "resource": {"attributes": dict(span.resource.attributes), "schema_url": span.resource.schema_url},
    }
    return json.dumps(said) + "\n"


def _context(context: SpanContext) -> dict[str, str]:
    return {
        "trace_id": f"0x{trace.format_trace_id(context.trace_id)}",
        "span_id": f"0x{trace.format_span_id(context.span_id)}",
        "trace_state": repr(context.trace_state),
    }


def _instant(nanoseconds: int | None) -> str | None:
    return None if nanoseconds is None else ns_to_iso_str(nanoseconds)
