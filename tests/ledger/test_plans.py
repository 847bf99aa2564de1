"""Every query of the ledger reads by an index, and no more than it needs, however much has happened."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import asyncpg
import pytest
import pytest_asyncio

from runtime.stack.postgres import Postgres
from tests.asked import NAMED
from tests.ledger.plans import fill, plan_of, unbounded
from tests.service import fresh_database

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Those whose plan depends on what is asked: what a page or a process asks, and not whatever could be.
GIVEN: dict[str, tuple[object, ...]] = {
    "calls.list_calls": ("acme", "executed", 50),
    "diagnostics.prune_diagnostics": (30, 20),
    "retention.due": ("call.proposed", 365, 1000),
    "seals.headless": (datetime.now(UTC),),
    "standing.behind": (1000,),
    "usage.hourly": ("acme", "issue_refund", 24),
}
_WAITS = "what waits for people, which they work off and the policy can limit"
_ALL = "reads the whole ledger, because that is what it is asked for"
_ROTATION = "counts or looks up what a key sealed, when an operator asks"
MAY = {
    "approvals.queue": _WAITS,
    "calls.admission_reads": _WAITS,
    "calls.count_calls": _WAITS,
    "inbox.counts": _WAITS,
    "notices.digest": f"{_WAITS}, and what was closed in a day",
    "notices.groups": f"{_WAITS}, and what was closed in a day",
    "notices.prune": "what it deletes",
    "notices.recent": "for the command line alone; what is old is deleted",
    "rebuilding.count_begun": _ALL,
    "rebuilding.differing_minutes": _ALL,
    "rebuilding.mend_minutes": _ALL,
    "rebuilding.without_events": _ALL,
    "recordings.happened": f"{_ALL}: the policy is tried on it",
    "recordings.versions": f"{_ALL}: the policy is tried on it",
    "retention.due": "of a type as many as are asked for, and the calls whose effects are watched",
    "rewrapping.held_data_keys": _ROTATION,
    "rewrapping.held_order_indexes": _ROTATION,
    "rewrapping.waiting_decisions": _ROTATION,
    "seals.is_settled": f"{_ALL}, for an export",
    "seals.never_sealed": f"{_ALL}, for an export",
    "seals.unsealed_events": "what was not sealed yet: how little that is, Postgres does not know",
    "standing.approvals": _WAITS,
    "switches.paused": f"{_WAITS}, when a switch is turned on again",
}
"""Queries that may read more, each for a reason. Pages and calls have others only where they read what waits."""
# `diagnosis` is asked of a file of SQLite, in which an export that does not verify is looked into.
QUERIES = [name for name in NAMED if not name.startswith("diagnosis.")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def many(postgres_server: Postgres, migrated_template: str) -> AsyncIterator["Connection"]:
    async with fresh_database(postgres_server, migrated_template) as url:
        await fill(postgres_server.superuser_url(url.rpartition("/")[2]))
        connection = await asyncpg.connect(url, server_settings={"counterseal.tenant": "acme"})
        yield connection
        await connection.close()


@pytest.mark.parametrize("name", QUERIES)
async def test_it_reads_by_index_and_no_more_than_it_needs(many: "Connection", name: str) -> None:
    found = sorted(set(unbounded(await plan_of(many, NAMED[name], GIVEN.get(name)))))
    if name in MAY:
        assert found, f"{name} reads no more than it needs: it is to be taken from the list"
    else:
        assert not found, f"{name} reads {', '.join(found)}: give it an index or a bound, or the list a reason"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT FROM calls WHERE code = $1", ["all of calls"]),
        ("SELECT FROM calls WHERE code = $1 LIMIT 1", ["all of calls"]),
        ("SELECT FROM calls ORDER BY request_id LIMIT 10", []),
        ("SELECT FROM calls WHERE tenant = $1 ORDER BY created_at DESC, request_id LIMIT $2", []),
        ("DELETE FROM events WHERE at = $1", ["all of events"]),
        ("SELECT FROM users WHERE display_name = $1", []),
    ],
)
async def test_what_reads_too_much_is_found(many: "Connection", query: str, found: list[str]) -> None:
    assert list(unbounded(await plan_of(many, query, None))) == found


async def test_what_waits_is_more_than_is_bounded(many: "Connection") -> None:
    (found,) = unbounded(await plan_of(many, "SELECT FROM approvals WHERE tenant = $1 AND status = 'open'", None))
    assert found.endswith(" rows of approvals")


async def test_what_waits_is_counted_by_hashing(many: "Connection") -> None:
    """Sorting it first takes twice as long: most of what it is sorted by is the same text."""
    plan = await plan_of(many, NAMED["inbox.counts"], None)
    (counted,) = (step for step in plan["Plans"] if step.get("Subplan Name") == "CTE alike")
    assert counted["Strategy"] == "Hashed"


async def test_only_queries_that_there_are_have_an_entry() -> None:
    assert MAY.keys() | GIVEN.keys() <= set(QUERIES)
