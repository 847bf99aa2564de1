"""Finding the bodies whose time is up."""

from ledger.migrations import run_sql

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    run_sql("0021_pruning")
