"""Which calls and approvals belonged to a customer who was erased."""

from ledger.migrations import run_sql

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    run_sql("0019_erasure")
