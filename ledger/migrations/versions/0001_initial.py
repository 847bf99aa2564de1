"""Events, projections, principals."""

from ledger.migrations import run_sql

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_sql("0001_initial")
