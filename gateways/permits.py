"""Until when a write may begin: what lets it was read a moment ago, and counts for a moment only."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_until: ContextVar[float | None] = ContextVar("permit", default=None)


class PermitExpiredError(Exception):
    """It took too long to get here; nothing was sent."""


@contextmanager
def permitted(until: float) -> Generator[None]:
    """Writes in this context may begin until then, by this process's monotonic clock in seconds."""
    token = _until.set(until)
    try:
        yield
    finally:
        _until.reset(token)


def check() -> None:
    """Right before the first byte of a write. Raises PermitExpiredError."""
    until = _until.get()
    if until is not None and time.monotonic() > until:
        raise PermitExpiredError
