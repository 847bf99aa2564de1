"""Small policies about refunds."""

from pathlib import Path

from policy.model import Policy
from runtime.policy import load_checked
from tests.ledger.refunds import CATALOG

_TEXT = """
name: small
defaults: {{approvers: finance, deadline: 24h, {defaults}}}
tools:
  issue_refund:
{refund}
    otherwise: notify
  cancel_order: {{otherwise: free}}
"""
HOLD = "rules: [{name: large, hold: finance, when: args.amount_cents > 1000, because: it is large}]"


def small(folder: Path, *lines: str, defaults: str = "") -> Policy:
    """A policy with these lines about refunds."""
    file = folder / "policy.yaml"
    refund = "\n".join(f"    {line}" for line in lines)
    file.write_text(_TEXT.format(refund=refund, defaults=defaults))
    return load_checked(file, CATALOG)
