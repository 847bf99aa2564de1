"""Structured logs on standard error, one JSON object a line, control characters escaped.

Libraries that print URLs are silenced at the source; of what others say, the first line is kept.
"""

import logging
import sys
from typing import cast

import structlog
from opentelemetry import trace

_QUIET = (
    "httpx",
    "httpcore",
    "asyncpg",
    "uvicorn.access",
    "temporalio.activity",
    "temporalio.workflow",
    "alembic",
    "mcp",
    "sse_starlette",
)


def start_logging(level: str) -> None:
    """Configure structlog and the standard library to write the same lines."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _in_trace,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, _first_line],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _without_foreign_text,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.captureWarnings(True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.ERROR)


def _in_trace(logger: logging.Logger, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """By which trace and span the line is found beside what else was done in them."""
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = trace.format_trace_id(context.trace_id)
        event["span_id"] = trace.format_span_id(context.span_id)
    return event


def _first_line(logger: logging.Logger, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """What a library says in more than one line is an exception's text, or holds one; its type is kept."""
    first, _, rest = str(event["event"]).partition("\n")
    if first.startswith("Traceback "):
        first, event["error_type"] = "failed", rest.rstrip().rpartition("\n")[2].partition(":")[0]
    event["event"] = first
    return event


def _without_foreign_text(
    logger: logging.Logger, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """An exception is named by its type alone: its text may hold URLs, headers or values."""
    info = event.pop("exc_info", None)
    if info is True:
        info = sys.exc_info()
    problem = cast("BaseException | None", info[1] if isinstance(info, tuple) else info)
    if isinstance(problem, BaseException):
        event["error_type"] = type(problem).__name__
    return event
