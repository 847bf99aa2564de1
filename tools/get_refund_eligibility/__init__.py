"""Says what issue_refund would answer."""
