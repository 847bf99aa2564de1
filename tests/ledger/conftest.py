"""A ledger over a database of its own for each test."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from ledger.ledger import Ledger
from tests.ledger.refunds import open_ledger
from tests.ledger.stopped_clock import StoppedClock

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.fixture
async def ledger(database: str) -> AsyncIterator[Ledger]:
    async with open_ledger(database) as opened:
        yield opened


@pytest.fixture
async def stopped(database: str) -> AsyncIterator[tuple[Ledger, StoppedClock]]:
    """A ledger whose database's clock stands still at `NOON`."""
    clock = await StoppedClock.install(database)
    await clock.set(NOON)
    async with open_ledger(database) as opened:
        yield opened, clock
    await clock.close()
