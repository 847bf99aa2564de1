"""What people prove when they decide."""

from ledger.migrations import run_sql

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    run_sql("0011_proofs")
