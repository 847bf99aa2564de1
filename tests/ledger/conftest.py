"""A ledger over a database of its own for each test."""

from collections.abc import AsyncIterator

import pytest

from ledger.ledger import Ledger
from tests.ledger.refunds import open_ledger


@pytest.fixture
async def ledger(database: str) -> AsyncIterator[Ledger]:
    async with open_ledger(database) as opened:
        yield opened
