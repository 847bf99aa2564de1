"""A role for each kind of process."""

from ledger.migrations import run_sql

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    run_sql("0026_roles")
