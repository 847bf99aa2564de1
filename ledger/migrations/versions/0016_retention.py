"""How long what events say is kept; a body whose time is up goes, its hash stays."""

from ledger.migrations import run_sql

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    run_sql("0016_retention")
