"""Alembic environment: plain SQL files over asyncpg, under an advisory lock so that two starters do not race."""

import asyncio
from functools import partial

import asyncpg
from alembic import context
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

_LOCK = 7_262_626_262


def _run(connection: Connection) -> None:
    context.configure(connection=connection, transaction_per_migration=False)
    with context.begin_transaction():
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        context.run_migrations()


async def _migrate() -> None:
    # A migration changes every tenant's rows. The driver reads the URL itself, as it does everywhere else.
    opened = partial(asyncpg.connect, context.config.attributes["url"], server_settings={"counterseal.tenant": "*"})
    engine = create_async_engine("postgresql+asyncpg://", poolclass=NullPool, async_creator=opened)
    try:
        async with engine.connect() as connection:
            await connection.run_sync(_run)
    finally:
        await engine.dispose()


asyncio.run(_migrate())
