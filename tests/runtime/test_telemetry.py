"""What the service's own tracer provider does beside making spans."""

import json
import secrets
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, Tracer

from runtime.telemetry import going_on, span_line, tracer_provider


class Traced(NamedTuple):
    tracer: Tracer
    exported: InMemorySpanExporter


@pytest.fixture
def traced() -> Iterator[Traced]:
    exporter, provider = InMemorySpanExporter(), tracer_provider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Traced(provider.get_tracer("tests"), exporter)
    provider.shutdown()


def test_what_is_done_within_a_step_is_said_to_be_of_its_call(traced: Traced) -> None:
    of_call = {"counterseal.request_id": "act_1", "gen_ai.tool.name": "issue_refund"}
    with traced.tracer.start_as_current_span("step", attributes={**of_call, "error.type": "LookupError"}) as step:
        step.set_attribute("counterseal.tenant", "example")
        given = {"http.request.method": "POST", "counterseal.tenant": "its own"}
        with traced.tracer.start_as_current_span("exchange", attributes=given):
            pass
    exchange, _ = traced.exported.get_finished_spans()
    assert exchange.attributes == {**of_call, **given}


def test_a_call_that_is_taken_up_stays_in_its_trace(traced: Traced) -> None:
    known = secrets.token_hex(16)
    with going_on(known), traced.tracer.start_as_current_span("again"), traced.tracer.start_as_current_span("within"):
        pass
    with going_on(None), traced.tracer.start_as_current_span("untraced before"):
        pass
    with traced.tracer.start_as_current_span("another"):
        pass
    within, again, untraced, another = traced.exported.get_finished_spans()
    assert again.parent is None
    ids = [f"{span.context.trace_id:032x}" for span in (again, within, untraced, another) if span.context]
    assert ids[:2] == [known, known]
    assert len({known, *ids[2:]}) == 3


def test_a_line_of_the_file_says_what_the_sdk_says_of_a_span(traced: Traced) -> None:
    with traced.tracer.start_as_current_span("before") as before:
        link = Link(before.get_span_context(), {"why": "resumed"})
        with traced.tracer.start_as_current_span("within", kind=SpanKind.CLIENT, links=[link]) as span:
            span.set_attributes({"counterseal.tenant": "example", "counterseal.capability_classes": ["money", "write"]})
            span.add_event("retried", {"attempt": 2})
            span.set_status(Status(StatusCode.ERROR, "refused"))
    spans = traced.exported.get_finished_spans()
    assert [json.loads(span_line(each)) for each in spans] == [json.loads(each.to_json()) for each in spans]
    assert all(span_line(each).count("\n") == 1 for each in spans)
