"""What became of effects, and alerts."""

from ledger.migrations import run_sql

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_sql("0004_effects")
