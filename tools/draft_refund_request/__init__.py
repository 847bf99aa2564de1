"""Writes a refund down, for people to decide about."""
