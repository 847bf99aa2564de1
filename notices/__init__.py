"""Telling people: what is said, over which channels it goes, and how each of them is spoken to."""
