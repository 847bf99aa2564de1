"""A call keeps the id of the trace that it is in."""

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from activities.tracing import current_trace_id, describe_tool
from tests.ledger.refunds import Refund


def test_the_trace_is_that_of_the_span_that_runs() -> None:
    assert current_trace_id() is None
    context = SpanContext(
        0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, is_remote=True, trace_flags=TraceFlags(1)
    )
    with trace.use_span(NonRecordingSpan(context)):
        assert current_trace_id() == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert current_trace_id() is None


def test_spans_show_the_arguments_that_the_manifest_names_and_no_others() -> None:
    proposed = Refund(100).proposed
    span = TracerProvider().get_tracer("tests").start_span("counterseal.admit")
    manifest = proposed.entry.manifest.model_copy(update={"trace": ("reason_code", "payment_id")})
    describe_tool(span, proposed.call, manifest)
    assert isinstance(span, ReadableSpan)
    shown = {name: value for name, value in (span.attributes or {}).items() if "argument" in name}
    assert shown == {"counterseal.argument.reason_code": "damaged"}
