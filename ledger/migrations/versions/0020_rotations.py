"""Finding the seals in which a key of the ledger named the next one."""

from ledger.migrations import run_sql

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    run_sql("0020_rotations")
