"""Gives the customer store credit."""
