"""Reading whose uses are shown once for a statement."""

from ledger.migrations import run_sql

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    run_sql("0030_uses_guarded_once")
