"""Work that one process at a time does."""

from ledger.migrations import run_sql

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    run_sql("0025_leases")
