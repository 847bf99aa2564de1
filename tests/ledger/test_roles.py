"""What the role of each kind of process may not do. What it may is played in `tests/e2e/test_queues.py`."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import asyncpg
import pytest

from ledger.database import connect
from ledger.ledger import Ledger
from runtime.stack.postgres import Postgres
from tests.ledger.refunds import MASTER, Refund, open_ledger
from tests.roles import NAMES, make_roles, url_as

Connect = Callable[[str], Awaitable[asyncpg.Connection]]
PROCESSES = ("api", "worker", "sealer")


@pytest.fixture
async def as_role(postgres_server: Postgres, database: str) -> AsyncIterator[Connect]:
    """A connection as a role, to a ledger with one sealed call."""
    make_roles(postgres_server)
    async with open_ledger(database) as ledger:
        await Refund(1_000).admit(ledger)
        await ledger.vault.put("stripe", "sk_example", by="olga")
        await ledger.seals.seal()
    async with AsyncExitStack() as opened:

        async def connected(name: str) -> asyncpg.Connection:
            connection = await asyncpg.connect(
                url_as(name, database), server_settings={"counterseal.tenant": "*"}, timeout=10
            )
            opened.push_async_callback(connection.close)
            return connection

        yield connected


async def refused(connection: asyncpg.Connection, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute(statement)


@pytest.mark.parametrize("name", NAMES)
async def test_nobody_but_the_owner_changes_what_was_recorded(as_role: Connect, name: str) -> None:
    connection = await as_role(name)
    for statement in (
        "UPDATE events SET hash = hash",
        "UPDATE events SET at = now()",
        "DELETE FROM events",
        "TRUNCATE events",
        "UPDATE seals SET size = 0",
        "DELETE FROM seals",
        "DELETE FROM decisions",
        "UPDATE publications SET version = ''",
        "INSERT INTO retention VALUES ('call', 1, 'nobody')",
        "ALTER TABLE events DISABLE TRIGGER ALL",
        "ALTER TABLE events DISABLE ROW LEVEL SECURITY",
        "CREATE TABLE mine (id int)",
        "SET ROLE counterseal",
    ):
        await refused(connection, statement)
    assert not await connection.fetchval("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")


CANNOT = {
    "api": (
        "INSERT INTO calls (request_id) VALUES ('act_1')",
        "UPDATE events SET body = NULL",
        "SELECT sealed FROM credentials",
        "UPDATE credentials SET retired_at = now()",
        "INSERT INTO seals VALUES (2, '{}', 0, '', '')",
        "SELECT wrapped FROM seal_keys",
        "UPDATE data_keys SET wrapped = NULL",
        "INSERT INTO leases VALUES ('sealing', 'me', 1, now())",
    ),
    "worker": (
        "INSERT INTO seals VALUES (2, '{}', 0, '', '')",
        "SELECT wrapped FROM seal_keys",
        "SELECT password_hash FROM users",
        "SELECT hash FROM tokens",
        "INSERT INTO tokens (token_id) VALUES ('tok_1')",
        "UPDATE tokens SET revoked_at = NULL",
        "SELECT FROM sessions",
        "INSERT INTO users (username) VALUES ('eve')",
        "UPDATE users SET roles = '{finance}'",
        "INSERT INTO grants (username) VALUES ('eve')",
        "INSERT INTO delegations (delegate) VALUES ('eve')",
        "SELECT FROM passkeys",
        "DELETE FROM switches",
        "INSERT INTO credentials (credential_id) VALUES ('c')",
        "INSERT INTO publications VALUES (1, '', '')",
        "UPDATE data_keys SET wrapped = NULL",
    ),
    "sealer": (
        "SELECT body FROM events",
        "INSERT INTO events (tenant) VALUES ('acme')",
        "SELECT * FROM calls",
        "UPDATE calls SET hash = ''",
        "SELECT FROM approvals",
        "SELECT FROM credentials",
        "SELECT FROM data_keys",
        "SELECT FROM users",
        "SELECT FROM tokens",
    ),
}


@pytest.mark.parametrize("name", CANNOT)
async def test_a_process_cannot_do_what_is_anothers(as_role: Connect, name: str) -> None:
    connection = await as_role(name)
    for statement in CANNOT[name]:
        await refused(connection, statement)


async def test_who_only_reads_writes_nothing_and_sees_no_secret(as_role: Connect) -> None:
    connection = await as_role("readonly")
    owner_tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    assert len(owner_tables) > 20
    for (table,) in owner_tables:
        for right in ("INSERT", "UPDATE", "DELETE", "TRUNCATE", "TRIGGER"):
            asked = "SELECT has_table_privilege(current_user, $1, $2)"
            assert not await connection.fetchval(asked, table, right), f"{right} on {table}"
        assert not await connection.fetchval(
            "SELECT has_any_column_privilege(current_user, $1, 'INSERT, UPDATE')", table
        ), table
    for secret in (
        "SELECT sealed FROM credentials",
        "SELECT wrapped FROM seal_keys",
        "SELECT password_hash FROM users",
        "SELECT hash FROM tokens",
        "SELECT FROM sessions",
        "SELECT FROM sign_ins",
        "SELECT FROM diagnostics",
    ):
        await refused(connection, secret)
    assert await connection.fetchval("SELECT count(*) FROM events") > 0


@pytest.mark.parametrize("name", NAMES)
async def test_nobody_runs_what_has_the_owners_rights(as_role: Connect, name: str) -> None:
    """Such as adding up: as the trigger of a table of their own it would write sums that no use has."""
    connection = await as_role(name)
    theirs = "SELECT proname, has_function_privilege(oid, 'EXECUTE') AS may FROM pg_proc WHERE prosecdef"
    assert {row["proname"]: row["may"] for row in await connection.fetch(theirs)} == {"add_up_uses": False}
    await connection.execute("CREATE TEMP TABLE mine (tenant text, subject text)")
    await refused(
        connection,
        "CREATE TRIGGER forged AFTER DELETE ON mine REFERENCING OLD TABLE AS old_uses"
        " FOR EACH STATEMENT EXECUTE FUNCTION add_up_uses()",
    )


@pytest.mark.parametrize("name", ["api", "worker", "readonly"])
async def test_row_level_security_holds_for_members(as_role: Connect, name: str) -> None:
    connection = await as_role(name)
    assert await connection.fetchval("SELECT count(*) FROM events") > 0
    for tenant in ("", "globex"):
        await connection.execute("SELECT set_config('counterseal.tenant', $1, false)", tenant)
        assert await connection.fetchval("SELECT count(*) FROM events") == 0


async def test_the_sealer_seals(as_role: Connect, database: str) -> None:
    async with open_ledger(database) as ledger:
        await Refund(1_001).admit(ledger)
    opened = await connect(url_as("sealer", database), maximum=2)
    try:
        sealer = Ledger.over(opened, MASTER)
        await sealer.seals.check(None)
        assert not await sealer.seals.late(3_600)
        sealed = await sealer.seals.seal()
        assert sealed is not None
        assert sealed.number == 2
        await sealer.seals.rotate()
        assert await sealer.leases.take("sealing", "me", 1) == 1
    finally:
        await opened.close()
