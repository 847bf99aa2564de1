"""Telling people."""

from ledger.migrations import run_sql

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_sql("0008_notices")
