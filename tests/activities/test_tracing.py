"""A call keeps the id of the trace that it is in."""

from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from activities.tracing import current_trace_id


def test_the_trace_is_that_of_the_span_that_runs() -> None:
    assert current_trace_id() is None
    context = SpanContext(
        0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, is_remote=True, trace_flags=TraceFlags(1)
    )
    with trace.use_span(NonRecordingSpan(context)):
        assert current_trace_id() == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert current_trace_id() is None
