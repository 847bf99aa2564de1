"""The caller's place in a trace, as W3C Trace Context has it (https://www.w3.org/TR/trace-context/)."""

import re

from counterseal_client.errors import Misuse

try:
    from opentelemetry import trace
except ImportError:  # it is used where it is there
    trace = None

_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def trace_headers(given: str | None) -> dict[str, str]:
    """`traceparent`: the one that is given, else that of OpenTelemetry's current span, else none. Raises Misuse."""
    if given is not None:
        if _TRACEPARENT.fullmatch(given) is None:
            raise Misuse("traceparent is not one of W3C Trace Context, version 00")
        return {"traceparent": given}
    context = trace.get_current_span().get_span_context() if trace else None
    if context is None or not context.is_valid:
        return {}
    return {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"}
