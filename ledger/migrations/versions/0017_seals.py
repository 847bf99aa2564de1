"""Seals over the events."""

from ledger.migrations import run_sql

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    run_sql("0017_seals")
