"""Bring a database to the current schema."""

from importlib.resources import files
from pathlib import Path

from alembic import command
from alembic.config import Config


def migrate(database_url: str) -> None:
    """Apply every migration that is missing; safe to run from several processes at once.

    `database_url` is a `postgresql://` URL. Raises what the driver raises when it cannot connect.
    """
    config = Config()
    config.set_main_option("script_location", str(Path(str(files("ledger"))) / "migrations"))
    config.attributes["url"] = database_url.replace("postgresql://", "postgresql+asyncpg://", 1)
    command.upgrade(config, "head")
