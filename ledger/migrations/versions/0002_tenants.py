"""Row-level security by tenant, a role of few rights for the service, and the token that opened a run."""

from ledger.migrations import run_sql

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_sql("0002_tenants")
