"""People's passkeys."""

from ledger.migrations import run_sql

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    run_sql("0013_passkeys")
