"""What stands beside an approval."""

from ledger.migrations import run_sql

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    run_sql("0012_related")
