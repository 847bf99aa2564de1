"""What the inbox is filtered by."""

from ledger.migrations import run_sql

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    run_sql("0010_inbox")
