"""What can go wrong with the embedded stack."""


class StackError(Exception):
    """The stack cannot start or go on; the text is one line for the person at the terminal."""
