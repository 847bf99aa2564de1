"""What gates are measured by."""

from ledger.migrations import run_sql

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    run_sql("0009_gates")
