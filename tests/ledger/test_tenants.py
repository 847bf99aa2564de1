"""Row-level security, the second wall: whatever a query forgets, a tenant's connection has its own rows alone."""

import asyncio
import base64
import random
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pydantic import SecretStr

from ledger.database import Connection, Database, Pool, connect
from ledger.ledger import Ledger
from ledger.migrate import migrate
from ledger.people import Grant
from ledger.principals import Principal
from runtime.assembly import core
from runtime.settings import Settings, SettingsError
from runtime.stack.postgres import Postgres
from tests.ledger.refunds import MASTER, Refund, decide, new_binding, open_ledger, parked
from tests.passwords import quick_hashes

TENANTS = ("acme", "globex")
# What belongs to no tenant.
_COMMON = {
    *("alembic_version", "attempts", "decision_keys", "policies", "retention", "sign_ins"),
    *("publications", "policy_proposals", "policy_votes"),
    *("seals", "seal_keys", "sealing", "leases"),
}
_ROWS_OF_0001 = """
INSERT INTO users VALUES ('acme', 'ana', 'Ana Example', '', '{}');
INSERT INTO sessions VALUES ('s', 'ana', 'c', now(), now());
INSERT INTO calls (request_id, tenant, run_id, agent_id, customer_id, tool, workflow_id, arguments_digest, status, code,
                   created_at, updated_at, n, hash, key_id, details)
VALUES ('act_1', 'acme', 'run_1', 'bot', 'cus_1', 'issue_refund', 'w', 'd', 'denied', 'USER_DENIED', now(), now(), 1,
        '', 'k', '');
INSERT INTO approvals VALUES ('apr_1', 'act_1', 'acme', 'issue_refund', 'denied', 'finance', 'r', 'p', 'd', now(),
                              now(), now(), 'k', '');
INSERT INTO decisions VALUES ('dec_1', 'apr_1', 'act_1', 'ana', 'deny', now(), 'k', '');
INSERT INTO views VALUES ('apr_1', 'ana');
"""
_TABLES = """
SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity AS forced,
       (SELECT array_agg(pg_get_expr(p.polqual, p.polrelid)) FROM pg_policy p WHERE p.polrelid = c.oid) AS policies,
       EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant' AND a.attnotnull) AS named
FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace ORDER BY c.relname
"""


@pytest.fixture(autouse=True)
def _quick_hashes() -> Iterator[None]:
    with quick_hashes():
        yield


async def _fill(ledger: Ledger, tenant: str) -> None:
    """Rows of the tenant in every table."""
    own = ledger.of(tenant)
    approval = await parked(ledger, binding=new_binding(tenant=tenant))
    await own.approvals.viewed(approval, f"ana-{tenant}")
    assert await own.claims.claim(
        tenant, approval.approval_id, f"ana-{tenant}", names=[f"ana-{tenant}"], take_over=False
    )
    await decide(ledger, approval)
    await ledger.database.tenant(tenant).execute(
        "INSERT INTO diagnostics (request_id, tenant, key_id, body) VALUES ($1, $2, 'dk_example', '')",
        approval.request_id,
        tenant,
    )
    await ledger.database.tenant(tenant).execute(
        "INSERT INTO alerts (tenant, request_id, kind, at) VALUES ($1, $2, 'needs_review', now())",
        tenant,
        approval.request_id,
    )
    await ledger.switches.turn_off(tenant, "tool:issue_refund", by="olga", reason="an example")
    await ledger.vault.put("stripe", "sk_example", by="olga", tenant=tenant)
    await ledger.principals.add_user(tenant, f"ana-{tenant}", "Ana Example", "a long example password", ["finance"])
    assert await ledger.principals.sign_in(f"ana-{tenant}", "a long example password") is not None
    identities = ledger.principals.identities
    assert await identities.link(f"ana-{tenant}", "https://login.example.com", f"subject-{tenant}") == "linked"
    assert await identities.grant(f"ana-{tenant}", Grant(role="finance", tool="*", currency="USD", up_to=50_000))
    key = f"key-{tenant}".encode()
    await own.passkeys.add(tenant, f"ana-{tenant}", credential_id=key, name="laptop", public_key=key, sign_count=0)
    await ledger.principals.add_user(tenant, f"mei-{tenant}", "Mei Example", "a long example password", [])
    now = datetime.now(UTC)
    until = now + timedelta(days=1)
    lent = await own.delegations.lend(tenant, f"ana-{tenant}", f"mei-{tenant}", now, until, reason="away", by="ana")
    assert lent
    await own.passkeys.new_nonce(tenant, f"ana-{tenant}", "add")
    await ledger.principals.open_run(
        Principal("service", tenant, "runtime"),
        agent_id="support-bot",
        actor_id="user_17",
        customer_id="cus_1",
        tools=["issue_refund"],
        seconds=3600,
    )


async def _guarded_tables(ledger: Ledger) -> list[str]:
    return [row["relname"] for row in await ledger.system.fetch(_TABLES) if row["relname"] not in _COMMON]


@pytest.fixture
async def three(database: str) -> AsyncIterator[Database]:
    """Three connections for tenants, one for everyone."""
    opened = await connect(database, maximum=4)
    yield opened
    await opened.close()


async def test_every_table_is_guarded(ledger: Ledger) -> None:
    rows = {row["relname"]: row for row in await ledger.system.fetch(_TABLES)}
    for name, row in rows.items():
        if name in _COMMON:
            assert not row["named"], name
            continue
        assert row["forced"], f"{name}: enable and force row-level security"
        assert row["named"], f"{name}: it needs a column tenant, not null"
        # Everyone's switches and credentials are seen by each tenant, too.
        assert len(row["policies"]) == (2 if name in ("switches", "credentials") else 1), name
        assert all("counterseal.tenant" in each for each in row["policies"]), name


async def test_a_tenants_connection_finds_nothing_of_another(ledger: Ledger) -> None:
    for tenant in TENANTS:
        await _fill(ledger, tenant)
    for table in await _guarded_tables(ledger):
        async with ledger.database.tenant("acme").acquire() as connection:
            found = await connection.fetch(f'SELECT DISTINCT tenant FROM "{table}"')
            assert [row["tenant"] for row in found] == ["acme"], table
            assert await connection.fetch(f"SELECT FROM \"{table}\" WHERE tenant = 'globex'") == []
            assert (
                await connection.execute(f"UPDATE \"{table}\" SET tenant = tenant WHERE tenant = 'globex'")
                == "UPDATE 0"
            )
            assert await connection.execute(f"DELETE FROM \"{table}\" WHERE tenant = 'globex'") == "DELETE 0"
        everyones = await ledger.system.fetch(f'SELECT DISTINCT tenant FROM "{table}" ORDER BY 1')
        assert [row["tenant"] for row in everyones] == list(TENANTS), table


async def test_a_tenants_connection_writes_nothing_for_another(ledger: Ledger) -> None:
    await _fill(ledger, "acme")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await ledger.database.tenant("acme").execute("UPDATE calls SET tenant = 'globex'")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await ledger.of("acme").admissions.admit(*_admission(Refund(1_000, binding=new_binding(tenant="globex"))))


def _admission(refund: Refund) -> tuple[Any, ...]:
    def decide(_: Any) -> Any:
        raise AssertionError("nothing is decided for a tenant whose key cannot even be made")

    return refund.proposed.call, [], None, datetime.now(UTC), decide


async def test_a_session_without_a_tenant_sees_nothing(ledger: Ledger, database: str) -> None:
    await _fill(ledger, "acme")
    connection = await asyncpg.connect(database)
    try:
        for table in await _guarded_tables(ledger):
            assert await connection.fetchval(f'SELECT count(*) FROM "{table}"') == 0, table
    finally:
        await connection.close()


async def test_what_a_url_sets_gives_a_tenants_connection_nothing_more(ledger: Ledger, database: str) -> None:
    await _fill(ledger, "globex")
    wide = f"{database}?options=-c%20counterseal.tenant%3D*"
    connection = await asyncpg.connect(wide)
    assert await connection.fetchval("SELECT count(*) FROM calls") == 1
    await connection.close()
    async with open_ledger(wide) as opened, opened.database.tenant("acme").acquire() as connection:
        assert await connection.fetchval("SELECT count(*) FROM calls") == 0


@pytest.mark.parametrize("name", ["", "*"])
async def test_nobody_and_everybody_are_no_tenants(ledger: Ledger, name: str) -> None:
    with pytest.raises(ValueError, match="no tenant"):
        ledger.of(name)
    for statement in (
        "INSERT INTO tokens (token_id, hash, kind, tenant, principal) VALUES ('t', '\\x00', 'service', $1, 'p')",
        "INSERT INTO users (tenant, username, display_name, password_hash, roles) VALUES ($1, 'u', 'U', '', '{}')",
    ):
        with pytest.raises(asyncpg.CheckViolationError):
            await ledger.system.execute(statement, name)


async def _look(database: Database, tenant: str) -> None:
    """One request's work: a statement by itself, or some in a transaction; now and then it breaks off."""
    async with database.tenant(tenant).acquire() as connection:
        assert await _seen(connection) == {tenant}
        if random.random() < 0.5:
            async with connection.transaction():
                assert await _seen(connection) == {tenant}
                await asyncio.sleep(0)
                assert await _seen(connection) == {tenant}
                if random.random() < 0.4:
                    raise _BrokenOff
                if random.random() < 0.2:
                    await connection.execute("SELECT pg_sleep(30)")


async def _seen(connection: Connection) -> set[str]:
    return {row["tenant"] for row in await connection.fetch("SELECT tenant FROM users")}


class _BrokenOff(Exception):
    """A request that ends in the middle of its transaction."""


async def test_interleaved_requests_of_two_tenants_never_see_each_others_rows(ledger: Ledger, three: Database) -> None:
    for tenant in TENANTS:
        await ledger.principals.add_user(tenant, f"ana-{tenant}", "Ana Example", "a long example password", [])

    async def request(number: int) -> None:
        work = asyncio.create_task(_look(three, TENANTS[number % 2 if number % 5 else 0]))
        try:
            # Some are cancelled while they wait, set the tenant, read, or sleep in their transaction.
            async with asyncio.timeout(random.choice([0.001, 0.01, 0.05, 0.1])):
                await work
        except (TimeoutError, _BrokenOff):
            pass

    async with asyncio.timeout(30):
        await asyncio.gather(*(request(number) for number in range(200)))
        await asyncio.gather(*(_look_plainly(three, TENANTS[number % 2]) for number in range(50)))


async def _look_plainly(database: Database, tenant: str) -> None:
    async with database.tenant(tenant).acquire() as connection:
        assert await connection.fetchval("SELECT current_setting('counterseal.tenant')") == tenant
        assert await _seen(connection) == {tenant}


async def test_a_tenant_that_was_not_set_for_certain_is_set_again(
    ledger: Ledger, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement that names the tenant ran, and whoever waited for it was cancelled."""
    one = await connect(database, maximum=2)
    try:
        async with one.tenant("acme").acquire():
            pass
        execute = asyncpg.Connection.execute

        async def execute_and_cancel(self: Any, query: str, *arguments: Any) -> str:
            await execute(self, query, *arguments)
            raise asyncio.CancelledError

        with monkeypatch.context() as patch:
            patch.setattr(asyncpg.Connection, "execute", execute_and_cancel)
            with pytest.raises(asyncio.CancelledError):
                await one.tenant("globex").fetch("SELECT")
        for tenant in ("acme", "globex", "acme"):
            assert await one.tenant(tenant).fetchval("SELECT current_setting('counterseal.tenant')") == tenant
    finally:
        await one.close()


async def test_an_open_transaction_is_rolled_back_when_its_connection_goes_back(ledger: Ledger, database: str) -> None:
    one = await connect(database, maximum=2)
    try:
        with pytest.raises(_BrokenOff):
            await _break_off(one.tenant("acme"))
        async with one.tenant("globex").acquire() as connection:
            assert not connection.is_in_transaction()
            assert await connection.fetchval("SHOW statement_timeout") == "0"
        assert await ledger.system.fetchval("SELECT count(*) FROM users") == 0
    finally:
        await one.close()


async def _break_off(pool: Pool) -> None:
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute(
            "INSERT INTO users (tenant, username, display_name, password_hash, roles)"
            " VALUES ('acme', 'ana', 'Ana Example', '', '{}')"
        )
        await connection.execute("SET LOCAL statement_timeout = '1s'")
        raise _BrokenOff


# The service's role


async def test_the_services_role_admits_and_decides_but_changes_no_event(
    ledger: Ledger, database: str, postgres_server: Postgres
) -> None:
    name = database.rpartition("/")[2]
    async with open_ledger(postgres_server.service_url(name)) as service:
        for tenant in TENANTS:
            await _fill(service, tenant)
        assert await service.database.is_guarded()
        for statement in (
            "UPDATE events SET type = 'call.decided'",
            "INSERT INTO retention VALUES ('call', 1, 'olga')",
            "UPDATE retention SET keep_days = 1",
            "DELETE FROM events",
            "TRUNCATE events",
            "UPDATE decisions SET verdict = 'approve'",
            "DELETE FROM calls",
            "ALTER TABLE events DISABLE ROW LEVEL SECURITY",
            "DROP POLICY tenants ON calls",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await service.system.execute(statement)
        for row in await ledger.system.fetch(_TABLES):
            await service.system.fetch(f'SELECT FROM "{row["relname"]}"')


async def test_no_process_starts_as_a_superuser(database: str, postgres_server: Postgres, tmp_path: Path) -> None:
    key = tmp_path / "master.key"
    key.write_text(base64.b64encode(bytes(32)).decode())
    url = postgres_server.superuser_url(database.rpartition("/")[2])
    with pytest.raises(SettingsError, match="row-level security") as refused:
        async with core(Settings(database_url=SecretStr(url), master_key_file=key)):
            pytest.fail("it started")
    assert url not in str(refused.value)


async def test_rows_from_before_get_their_tenant(empty_database: str) -> None:
    connection = await asyncpg.connect(empty_database)
    try:
        await connection.execute(files("ledger.migrations").joinpath("sql", "0001_initial.sql").read_text())
        await connection.execute("CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)")
        await connection.execute("INSERT INTO alembic_version VALUES ('0001')")
        await connection.execute(_ROWS_OF_0001)
        await asyncio.to_thread(migrate, empty_database)
        await connection.execute("SET counterseal.tenant = 'acme'")
        for table in ("decisions", "views", "sessions"):
            assert await connection.fetchval(f"SELECT tenant FROM {table}") == "acme", table
        await connection.execute("SET counterseal.tenant = 'globex'")
        for table in ("decisions", "views", "sessions", "users", "calls", "approvals"):
            assert await connection.fetchval(f"SELECT count(*) FROM {table}") == 0, table
    finally:
        await connection.close()


# What it costs


@pytest.fixture
async def counted(database: str) -> AsyncIterator[tuple[Ledger, list[str]]]:
    """A ledger with one connection for tenants and one for everyone, and the statements that it sends."""
    sent: list[str] = []
    log: Callable[[Any], None] = lambda record: sent.append(record.query)  # noqa: E731
    opened = await connect(database, maximum=2)
    try:
        for pool in (opened.system, opened.tenant("nobody")):
            async with pool.acquire() as connection:
                connection.add_query_logger(log)
        yield Ledger.over(opened, MASTER), sent
    finally:
        await opened.close()


async def test_an_admission_takes_six_round_trips(counted: tuple[Ledger, list[str]]) -> None:
    """One for the run; begin, locks, reads, insert, commit. Nothing when the connection is taken or goes back."""
    ledger, sent = counted
    binding, other = new_binding(), new_binding()
    await ledger.admissions.run(binding.run_id, "")
    await Refund(1_000, binding=binding).admit(ledger)
    sent.clear()
    await ledger.admissions.run(binding.run_id, "")
    await Refund(1_100, binding=binding).admit(ledger)
    assert len(sent) == 6, sent
    sent.clear()
    # One more where the connection was another tenant's last.
    await Refund(1_000, binding=other).admit(ledger)
    await Refund(1_000, binding=other).admit(ledger)
    settings = [query for query in sent if "set_config('counterseal.tenant'" in query]
    assert len(settings) == 1
