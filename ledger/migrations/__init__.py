"""Schema migrations: one Python file per version, each running one file of plain SQL."""

from importlib.resources import files

from alembic import op


def run_sql(name: str) -> None:
    """Run every statement of `sql/<name>.sql` in the migration's transaction."""
    statements = files("ledger.migrations").joinpath("sql", f"{name}.sql").read_text()
    adapted = op.get_bind().connection.dbapi_connection
    if adapted is None:
        raise RuntimeError("migrations run against a live connection only")
    adapted.run_async(lambda connection: connection.execute(statements))  # pyright: ignore
