"""Keeping what runs with the owner's rights from everybody else."""

from ledger.migrations import run_sql

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    run_sql("0032_owners_rights")
