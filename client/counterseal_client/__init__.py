"""Counterseal from the outside."""
