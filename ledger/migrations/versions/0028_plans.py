"""Reading by an index what was read from one end to the other."""

from ledger.migrations import run_sql

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    run_sql("0028_plans")
