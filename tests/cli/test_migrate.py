"""`counterseal migrate`."""

import asyncpg
import pytest

from tests.cli.conftest import Run


async def tables(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval("SELECT count(*) FROM pg_tables WHERE tablename IN ('events', 'calls')")
    finally:
        await connection.close()


async def test_an_empty_database_gets_the_schema_and_again_changes_nothing(run: Run, empty_database: str) -> None:
    for _ in range(2):
        ran = await run("migrate", "--database-url", empty_database)
        assert ran.status == 0
        assert await tables(empty_database) == 2


async def test_the_settings_say_which_database(run: Run, empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERSEAL_DATABASE_URL", empty_database)
    assert (await run("migrate")).status == 0
    assert await tables(empty_database) == 2


@pytest.mark.parametrize(
    ("url", "status", "because"),
    [
        ("postgresql://owner:hunter2@127.0.0.1:1/ledger", 1, "127.0.0.1:1/ledger cannot be reached"),
        ("mysql://owner:hunter2@127.0.0.1/ledger", 2, "postgresql://"),
    ],
)
async def test_what_cannot_be_migrated_is_one_line_without_the_password(
    run: Run, url: str, status: int, because: str
) -> None:
    ran = await run("migrate", "--database-url", url)
    assert ran.status == status
    assert because in ran.complaint
    assert "hunter2" not in ran.complaint


async def test_a_wrong_password_is_said_without_it(run: Run, empty_database: str) -> None:
    scheme, _, rest = empty_database.partition("://")
    owner, _, host = rest.partition("@")
    ran = await run("migrate", "--database-url", f"{scheme}://{owner.partition(':')[0]}:hunter2@{host}")
    assert ran.status == 1
    assert "hunter2" not in ran.complaint


async def test_two_databases_at_once_are_wrong_usage(run: Run) -> None:
    ran = await run("migrate", "--database-url", "postgresql://a/b", "--data", "/nowhere")
    assert ran.status == 2


async def test_without_a_database_the_way_to_get_one_is_named(
    run: Run, tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERSEAL_DATA", str(tmp_path))
    ran = await run("migrate")
    assert ran.status == 1
    assert "counterseal up" in ran.complaint
