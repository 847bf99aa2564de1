"""`counterseal migrate`: the database schema."""

from pathlib import Path
from typing import Annotated

import asyncpg
import typer
from alembic.util import CommandError as AlembicError
from sqlalchemy.exc import SQLAlchemyError

from ledger.database import UNAVAILABLE
from ledger.migrate import migrate as apply
from runtime.cli.connecting import DataOption, find_place
from runtime.cli.errors import CommandError

app = typer.Typer(add_completion=False)


@app.command(epilog="Example: counterseal migrate --database-url postgresql://owner@db.example.com/counterseal")
def migrate(
    database_url: Annotated[
        str | None, typer.Option(help="Which database", show_default="COUNTERSEAL_DATABASE_URL")
    ] = None,
    data: DataOption = None,
) -> None:
    """Bring the database to the current schema; what is there already stays."""
    place = find_place(_folder(data, database_url), database_url)
    if not place.database_url.startswith("postgresql://"):
        raise typer.BadParameter("the database URL must begin with postgresql://")
    try:
        apply(place.database_url)
    except AlembicError:
        raise CommandError(f"the database {place.name} has a schema of another version of Counterseal") from None
    except UNAVAILABLE:
        raise CommandError(f"the database {place.name} cannot be reached") from None
    except (asyncpg.PostgresError, SQLAlchemyError, ValueError) as error:
        raise CommandError(f"the database {place.name} did not take the schema ({type(error).__name__})") from None
    typer.echo(f"the database {place.name} has the current schema")


def _folder(data: Path | None, database_url: str | None) -> Path | None:
    if data is not None and database_url is not None:
        raise typer.BadParameter("give --database-url or --data, not both")
    return data
