"""An embedded stack of one's own for the time of a piece of work."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from runtime.seed import seed
from runtime.stack.connection import StackInfo
from runtime.stack.credentials import Credentials
from runtime.stack.files import DataFolder
from runtime.stack.running import run_stack
from runtime.stack.services import Stack

T = TypeVar("T")


async def with_stack(
    folder: DataFolder,
    work: Callable[[StackInfo], Awaitable[T]],
    *,
    report: Callable[[str], None],
    port: int | None = None,
    stay: Callable[[T], bool],
    environment: Mapping[str, str] | None = None,
    keys: Mapping[str, str] | None = None,
) -> T | None:
    """Start a stack on `folder`, do `work` on it, and stop it cleanly; its result, None when it was interrupted.

    `environment` is what it is told beside this process's own, `keys` those of more systems, for the vault.

    `stay` says, given the result, whether the stack then stays up until a stop signal. Raises StackError and whatever
    `work` raises.
    """

    def compose(ports: Mapping[str, int], credentials: Credentials) -> Stack:
        return Stack(folder, ports, credentials, caller={**os.environ, **(environment or {})}, seed=seed_all)

    async def seed_all(url: str, credentials: dict[str, Any], master_key: Path, own: Mapping[str, str]) -> None:
        await seed(url, credentials, master_key, {**own, **(keys or {})})

    started: asyncio.Future[StackInfo] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    stack = asyncio.create_task(
        run_stack(folder, compose, report=report, started=started.set_result, port=port, stop=stop)
    )
    try:
        await asyncio.wait([stack, started], return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            return None
        working = asyncio.ensure_future(work(started.result()))
        await asyncio.wait([stack, working], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            await asyncio.wait([working])
            return None
        if stay(working.result()):
            await asyncio.wait([stack])
        return working.result()
    finally:
        stop.set()
        await stack  # raises what ended it, if that was no stop
