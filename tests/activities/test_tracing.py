"""What spans say of a call, and what they never do."""

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NonRecordingSpan, SpanContext, StatusCode, TraceFlags
from structlog.contextvars import get_contextvars

from activities import tracing
from activities.tracing import current_trace_id, current_traceparent, describe_tool, read_untrusted, step, waited
from ledger.chain import GENESIS, Head
from ledger.folding import advanced
from ledger.records import CallRecord
from schemas.calls import RunFacts
from schemas.events import CallProposed
from tests.ledger.refunds import Refund

REMOTE = SpanContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, is_remote=True, trace_flags=TraceFlags(1))
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_tracer", provider.get_tracer("tests"))
    yield exporter
    provider.shutdown()


def test_the_trace_is_that_of_the_span_that_runs() -> None:
    assert (current_trace_id(), current_traceparent()) == (None, None)
    with trace.use_span(NonRecordingSpan(REMOTE)):
        assert current_trace_id() == "4bf92f3577b34da6a3ce929d0e0e4736"
        assert current_traceparent() == TRACEPARENT
    assert current_trace_id() is None


def described(**manifest: Any) -> dict[str, Any]:
    proposed = Refund(100).proposed
    span = TracerProvider().get_tracer("tests").start_span("counterseal.admit")
    describe_tool(span, proposed.call, proposed.entry.manifest.model_copy(update=manifest))
    assert isinstance(span, ReadableSpan)
    return dict(span.attributes or {})


def test_spans_show_the_arguments_that_the_manifest_names_and_no_others() -> None:
    shown = {
        name: value for name, value in described(trace=("reason_code", "payment_id")).items() if "argument" in name
    }
    assert shown == {"counterseal.argument.reason_code": "damaged"}


@pytest.mark.parametrize(("redact", "redacted"), [((), False), (("reason_code",), True), (("payment_id",), False)])
def test_spans_say_whether_a_value_is_kept_from_people(redact: tuple[str, ...], redacted: bool) -> None:
    assert described(redact=redact)["counterseal.redacted"] is redacted


def test_what_others_wrote_is_untrusted() -> None:
    assert read_untrusted(RunFacts(touched=("read_private", "read_untrusted")))
    assert not read_untrusted(RunFacts(touched=("read_private", "money_movement")))


def test_a_failed_step_is_named_by_its_exceptions_type_alone(spans: InMemorySpanExporter) -> None:
    def fail() -> None:
        with step("counterseal.execute", "act_1"):
            assert get_contextvars()["request_id"] == "act_1"
            raise LookupError("what no span may hold")

    with pytest.raises(LookupError):
        fail()
    assert "request_id" not in get_contextvars()
    (span,) = spans.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "LookupError"
    assert "what no span may hold" not in span.to_json()


def proposed_record(refund: Refund) -> CallRecord:
    return advanced(None, [CallProposed(call=refund.proposed.call)], head=Head(1, GENESIS), at=BEGAN)[0]


BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def wait(spans: InMemorySpanExporter, decided_in: str | None, took: timedelta = timedelta(hours=3)) -> ReadableSpan:
    """The span of a wait that a step ended, within the trace of `REMOTE`."""
    refund = Refund(100)
    with trace.use_span(NonRecordingSpan(REMOTE)), step("counterseal.execute", "act_1"):
        waited(proposed_record(refund), refund.proposed.entry.manifest, BEGAN, BEGAN + took, decided_in)
    (found,) = (each for each in spans.get_finished_spans() if each.name == "approval.wait")
    return found


def test_the_wait_is_a_span_beside_the_step_that_ends_it(spans: InMemorySpanExporter) -> None:
    span = wait(spans, None)
    assert span.parent == REMOTE
    assert (span.end_time or 0) - (span.start_time or 0) == 3 * 3600 * 10**9
    assert span.links == ()


def test_a_wait_that_ended_before_it_began_took_no_time(spans: InMemorySpanExporter) -> None:
    span = wait(spans, None, timedelta(seconds=-1))
    assert span.end_time == span.start_time


def test_the_wait_is_linked_to_the_request_that_decided(spans: InMemorySpanExporter) -> None:
    trace_id, span_id = secrets.token_hex(16), secrets.token_hex(8)
    (link,) = wait(spans, f"00-{trace_id}-{span_id}-01").links
    assert (f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") == (trace_id, span_id)


@pytest.mark.parametrize(
    "forged",
    ["", "what no span may hold", f"00-{'0' * 32}-{'1' * 16}-01", f"00-{'1' * 32}-{'1' * 16}-01\n", "00-1-1-01"],
)
def test_nothing_else_is_taken_for_one(spans: InMemorySpanExporter, forged: str) -> None:
    span = wait(spans, forged)
    assert span.links == ()
    assert "what no span may hold" not in span.to_json()


def test_a_call_asked_for_again_is_said_to_be(spans: InMemorySpanExporter) -> None:
    refund = Refund(100)
    record = proposed_record(refund)
    with step("counterseal.admit", "act_1") as span:
        tracing.describe(span, record, refund.proposed.entry.manifest, deduplicated=True)
    with step("counterseal.admit", "act_2") as span:
        # Its tool is no longer there.
        tracing.describe(span, record, None)
    first, second = (each.attributes or {} for each in spans.get_finished_spans())
    assert (first["counterseal.deduplicated"], first["counterseal.request_id"]) == (True, record.request_id)
    assert second["counterseal.deduplicated"] is False
    assert not {"counterseal.decision", "counterseal.tool.name"} & second.keys()
