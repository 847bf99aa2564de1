"""Finding what was done in a trace."""

from ledger.migrations import run_sql

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    run_sql("0027_traces")
