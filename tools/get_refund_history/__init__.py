"""Lists what was refunded of an order."""
