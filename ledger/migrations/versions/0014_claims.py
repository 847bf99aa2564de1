"""Claims: who is reading what waits."""

from ledger.migrations import run_sql

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    run_sql("0014_claims")
