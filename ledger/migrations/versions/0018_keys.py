"""Several data keys of one customer over time, and the public keys that decisions were signed with."""

from ledger.migrations import run_sql

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    run_sql("0018_keys")
