"""Counting what calls took from the index alone."""

from ledger.migrations import run_sql

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    run_sql("0029_counted_uses")
