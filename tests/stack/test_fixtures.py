"""The session's servers are real, and a test's database is its own."""

import asyncpg
from temporalio.client import Client

from runtime.stack.postgres import Postgres


async def test_each_database_is_fresh_and_owned_by_an_ordinary_role(empty_database: str) -> None:
    connection = await asyncpg.connect(empty_database)
    try:
        await connection.execute("CREATE TABLE mine (id int)")
        assert not await connection.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    finally:
        await connection.close()


async def test_nothing_is_left_in_the_next_database(empty_database: str) -> None:
    connection = await asyncpg.connect(empty_database)
    try:
        assert await connection.fetchval("SELECT to_regclass('mine')") is None
    finally:
        await connection.close()


async def test_a_wrong_password_does_not_connect(postgres_server: Postgres) -> None:
    wrong = f"postgresql://postgres:wrong@127.0.0.1:{postgres_server.port}/postgres"
    try:
        await asyncpg.connect(wrong)
    except asyncpg.InvalidPasswordError:
        return
    raise AssertionError("connected with a wrong password")


async def test_temporal_answers(temporal_server: str) -> None:
    client = await Client.connect(temporal_server, namespace="default")
    assert await client.service_client.check_health()
