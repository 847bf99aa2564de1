"""Bring a database to the current schema."""

from importlib.resources import files
from pathlib import Path

import asyncpg

_FOLDER = Path(str(files("ledger"))) / "migrations"


def migrate(database_url: str) -> None:
    """Apply every migration that is missing; safe to run from several processes at once.

    `database_url` is a `postgresql://` URL. Raises what the driver raises when it cannot connect.
    """
    # Imported here: whoever only asks `is_current` is spared the slowest import of the service.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    config.attributes["url"] = database_url
    command.upgrade(config, "head")


async def is_current(database_url: str) -> bool:
    """Whether the database has every migration already. Raises what the driver raises when it cannot connect."""
    newest = max(path.stem.partition("_")[0] for path in (_FOLDER / "versions").glob("[0-9]*.py"))
    connection = await asyncpg.connect(database_url)
    try:
        return await connection.fetchval("SELECT version_num FROM alembic_version") == newest
    except asyncpg.UndefinedTableError:
        return False
    finally:
        await connection.close()
