"""How a command says that it could not do what was asked."""


class CommandError(Exception):
    """A failure in one readable line for the person at the terminal; exit status 1."""
