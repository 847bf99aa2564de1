"""A file that is there as long as a process can do its work."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import structlog

_log = structlog.get_logger()
Check = Callable[[], Awaitable[bool]]


@asynccontextmanager
async def kept_ready(file: Path, checks: Sequence[Check], *, every_seconds: float = 5.0) -> AsyncGenerator[None]:
    """The file is there from now on while all `checks` hold, looked at every so often, and gone at the end."""
    _show(file, ready=True)
    task = asyncio.create_task(_keep(file, checks, every_seconds))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        _show(file, ready=False)


async def _keep(file: Path, checks: Sequence[Check], every_seconds: float) -> None:
    was = True
    while True:
        await asyncio.sleep(every_seconds)
        holds = await _hold(checks, every_seconds)
        _show(file, ready=holds)
        if holds != was:
            _log.warning("worker_ready_again" if holds else "worker_not_ready")
        was = holds


def _show(file: Path, *, ready: bool) -> None:
    if ready:
        file.touch()
    else:
        file.unlink(missing_ok=True)


async def _hold(checks: Sequence[Check], within: float) -> bool:
    try:
        async with asyncio.timeout(within):
            return all([await each() for each in checks])
    except Exception:  # noqa: BLE001 - whatever went wrong, it is not ready
        return False
