"""Heartbeats: how Temporal learns within seconds that the worker of a long exchange is gone."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from temporalio import activity

# An activity that is done sooner costs nothing.
_EVERY_SECONDS = 3


@asynccontextmanager
async def beating() -> AsyncGenerator[None]:
    """Heartbeats while the block runs. A local activity has none: its workflow's task is kept alive for it."""
    if activity.info().is_local:
        yield
        return
    task = asyncio.create_task(_beat())
    try:
        yield
    finally:
        task.cancel()


async def _beat() -> None:
    while True:
        await asyncio.sleep(_EVERY_SECONDS)
        activity.heartbeat()
