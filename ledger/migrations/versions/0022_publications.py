"""Policies that are in force by being published, and what people say to a change of them."""

from ledger.migrations import run_sql

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    run_sql("0022_publications")
