"""Patterns of text that people read. Written so that every dialect of regular expressions that reads a JSON Schema
understands them."""

_TURNED_OR_HIDDEN = r"\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
"""The later control characters, and what has no width, separates lines or changes the direction of others."""

PRINTABLE = rf"^[^\u0000-\u001f{_TURNED_OR_HIDDEN}]+$"
"""One line without control or invisible characters."""

PRINTABLE_LINES = rf"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f{_TURNED_OR_HIDDEN}]+$"
"""The same, with line ends and tabs."""
