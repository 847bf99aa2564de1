"""Finding what a run did."""

from ledger.migrations import run_sql

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    run_sql("0023_runs")
