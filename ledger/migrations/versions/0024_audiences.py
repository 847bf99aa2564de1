"""Where a run token is good."""

from ledger.migrations import run_sql

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    run_sql("0024_audiences")
