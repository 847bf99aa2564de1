"""One server span per request, named by its route; the caller's `traceparent` is its parent. Its time is measured."""

import time
from collections.abc import Mapping

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Status, StatusCode
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.measuring import served

_tracer = trace.get_tracer("counterseal.api")
# Asked for again and again by probes and browsers.
_QUIET = ("/healthz", "/readyz", "/metrics", "/static/")


def parent_in(carrier: Mapping[str, object]) -> Context | None:
    """The trace that a caller names with `traceparent` and `tracestate`; None where it names none."""
    named = {name: value for name in ("traceparent", "tracestate") if isinstance(value := carrier.get(name), str)}
    context = propagate.extract(named)
    return context if trace.get_current_span(context).get_span_context().is_valid and named else None


class RequestSpans:
    """ASGI middleware. Nothing of the query, headers or body is recorded."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(_QUIET):
            await self._app(scope, receive, send)
            return
        carrier = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in (b"traceparent", b"tracestate")
        }
        method, began = scope["method"], time.monotonic()
        answered: int | None = None
        with _tracer.start_as_current_span(
            method,
            context=propagate.extract(carrier),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:

            async def traced_send(message: Message) -> None:
                nonlocal answered
                if message["type"] == "http.response.start":
                    answered = status = int(message["status"])
                    span.set_attribute("http.response.status_code", status)
                    if status >= 500:
                        span.set_status(Status(StatusCode.ERROR))
                await send(message)

            try:
                await self._app(scope, receive, traced_send)
            finally:
                route = getattr(scope.get("route"), "path", None)
                if route is not None:
                    span.update_name(f"{method} {route}")
                    span.set_attribute("http.route", route)
                served(method, route, answered, began)
