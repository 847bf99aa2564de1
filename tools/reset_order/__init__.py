"""Puts an order back as the store first had it."""
