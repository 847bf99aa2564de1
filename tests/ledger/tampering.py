"""What whoever owns the database can do to the ledger, triggers or not."""

import asyncpg


async def tamper(database: str, *statements: str) -> None:
    """Run statements with the guards of events and seals off; the last of them has to change something."""
    connection = await asyncpg.connect(database, server_settings={"counterseal.tenant": "*"})
    try:
        async with connection.transaction():
            for table in ("events", "seals"):
                await connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            done = ""
            for statement in statements:
                done = await connection.execute(statement)
            assert not done.endswith(" 0"), "nothing was changed"
            for table in ("events", "seals"):
                await connection.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    finally:
        await connection.close()
