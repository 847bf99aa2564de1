"""What calls took, added up by the minute."""

from ledger.migrations import run_sql

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    run_sql("0031_uses_by_minute")
