"""Many histories of calls, and what holds at every moment of every one of them.

`pytest tests/model --model-examples=20000` plays more than the suite does, `--model-seed` the same ones again.
"""

import asyncio
import math
import multiprocessing
import secrets
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack

import pytest

from runtime.stack.postgres import Postgres
from tests.model.play import Played, play
from tests.service import fresh_database

EXAMPLES = 1_000
SECONDS = 30
"""The suite plays no longer than that, on a machine that is slow or busy."""
PROCESSES = 2


async def _play(server: Postgres, template: str, examples: int, seed: int, seconds: float) -> list[Played]:
    """In as many processes as there are cores to count on, each with a database, and so a clock, of its own."""
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(fresh_database(server, template)) for _ in range(PROCESSES)]
        spawned = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(PROCESSES, mp_context=spawned) as pool:
            loop = asyncio.get_running_loop()
            return await asyncio.gather(
                *(
                    loop.run_in_executor(pool, play, url, -(-examples // PROCESSES), seed + n * 1_000_000, seconds)
                    for n, url in enumerate(urls)
                )
            )


async def test_every_history_keeps_what_must_hold(
    postgres_server: Postgres,
    migrated_template: str,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = request.config.getoption("--model-examples", default=None)
    examples, seconds = (asked, math.inf) if asked else (EXAMPLES, SECONDS)
    seed = request.config.getoption("--model-seed", default=None) or secrets.randbits(32)
    played = await _play(postgres_server, migrated_template, examples, seed, seconds)
    counts = sum((each.counts for each in played), Counter[str]())
    with capsys.disabled():
        told = ", ".join(f"{count} {name}" for name, count in counts.most_common() if name != "histories")
        took = max(each.seconds for each in played)
        print(  # noqa: T201 - how much was played
            f"\nmodel: {counts['histories']} histories in {took:.0f} s with --model-seed={seed}: {told}"
        )
    failures = [each.failure for each in played if each.failure is not None]
    assert not failures, failures[0]
