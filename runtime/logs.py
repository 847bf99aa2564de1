"""Structured logs on standard error, one JSON object a line. Libraries that print URLs are silenced at the source."""

import logging
import sys
from typing import cast

import structlog

_QUIET = ("httpx", "httpcore", "asyncpg", "uvicorn.access", "temporalio.activity", "temporalio.workflow", "alembic")


def start_logging(level: str) -> None:
    """Configure structlog and the standard library to write the same lines."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
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
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _without_foreign_text,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.ERROR)


def _without_foreign_text(
    logger: logging.Logger, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """An exception is named by its type alone: its text may hold URLs, headers or values."""
    info = event.pop("exc_info", None)
    problem = cast("BaseException | None", info[1] if isinstance(info, tuple) else info)
    if isinstance(problem, BaseException):
        event["error_type"] = type(problem).__name__
    return event
