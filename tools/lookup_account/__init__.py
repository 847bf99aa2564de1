"""Tells how the customer stands with the shop."""
