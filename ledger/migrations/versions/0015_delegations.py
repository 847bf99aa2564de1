"""Who decides for whom, and from when until when."""

from ledger.migrations import run_sql

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    run_sql("0015_delegations")
