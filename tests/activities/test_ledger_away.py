"""Where the ledger cannot be written, nothing is sent: not while its table is locked, nor when its disk is full."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
import pytest_asyncio

from tests.activities.desk import Desk
from tests.loopback import plain_client
from tests.service import Service, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

_NO_SPACE = """
CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
END
$$;
CREATE TRIGGER no_space BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION no_space();
"""


@pytest_asyncio.fixture(loop_scope="session")
async def owner(wired: Service) -> AsyncIterator[asyncpg.Connection]:
    """Whoever owns the tables."""
    url = wired.core.settings.database_url.get_secret_value()
    connection = await asyncpg.connect(url, server_settings={"counterseal.tenant": "*"})
    yield connection
    await connection.close()


async def requests(service: Service) -> int:
    """How many refunds were ever asked for at the gateway."""
    async with plain_client() as client:
        answer = await client.get(f"{service.outside.urls.gateway}/_requests")
    return sum(each["method"] == "POST" for each in answer.json()["requests"])


@asynccontextmanager
async def full_disk(owner: asyncpg.Connection) -> AsyncGenerator[None]:
    await owner.execute(_NO_SPACE)
    try:
        yield
    finally:
        await owner.execute("DROP TRIGGER no_space ON events; DROP FUNCTION no_space")


async def test_a_full_disk_lets_nothing_out(wired: Service, owner: asyncpg.Connection) -> None:
    """Neither a free call's intent nor an approved one's; and afterwards the same call goes out once."""
    desk = Desk(wired)
    order, before = await wired.outside.order(), await requests(wired)
    request, workflow_id = await wired.proposal(order, 1_000)
    async with full_disk(owner):
        with pytest.raises(asyncpg.DiskFullError):
            await desk.admit(request, workflow_id)
    assert await requests(wired) == before
    assert await wired.outside.effects(order) == []
    assert (await desk.admit(request, workflow_id)).status == "executed"
    assert len(await wired.outside.effects(order)) == 1


async def test_a_locked_table_lets_nothing_out(wired: Service, owner: asyncpg.Connection) -> None:
    order, before = await wired.outside.order(), await requests(wired)
    async with owner.transaction():
        await owner.execute("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
        sending = asyncio.create_task(Desk(wired).refund(order, 1_000))

        async def waiting() -> int | None:
            """Which backend waits for the table."""
            return await owner.fetchval(
                "SELECT pid FROM pg_locks WHERE NOT granted AND relation = 'events'::regclass AND database ="
                " (SELECT oid FROM pg_database WHERE datname = current_database())"
            )

        await owner.execute("SELECT pg_cancel_backend($1)", await until(waiting))
        with pytest.raises(asyncpg.QueryCanceledError):
            await sending
        assert await requests(wired) == before
    assert await wired.outside.effects(order) == []
