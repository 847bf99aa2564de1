"""Searches the help centre."""
