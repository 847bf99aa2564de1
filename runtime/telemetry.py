"""Traces: OTLP by the standard OTEL_ variables, and a JSON-lines file where one is asked for."""

import os
from collections.abc import Callable
from pathlib import Path

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from temporalio.contrib.opentelemetry import create_tracer_provider


def start_tracing(service: str, traces_file: Path | None) -> Callable[[], None]:
    """Install the process's tracer provider; returns what flushes and stops it.

    Nothing is exported unless OTEL_EXPORTER_OTLP_ENDPOINT (or the traces one) or `traces_file` is set.
    """
    provider = create_tracer_provider(resource=Resource.create({"service.name": f"counterseal-{service}"}))
    if any(os.environ.get(name) for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")):
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    if traces_file is not None:
        traces_file.parent.mkdir(parents=True, exist_ok=True)
        lines = traces_file.open("a", encoding="utf-8")
        provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(out=lines, formatter=_line)))
    trace.set_tracer_provider(provider)
    return provider.shutdown


def _line(span: ReadableSpan) -> str:
    return span.to_json(indent=None) + "\n"
