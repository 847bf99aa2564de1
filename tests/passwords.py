"""Passwords of people whom a test signs in."""

from collections.abc import Generator
from contextlib import contextmanager
from unittest.mock import patch

from argon2 import PasswordHasher

from ledger import principals


@contextmanager
def quick_hashes() -> Generator[None]:
    """The same hash meanwhile, without the work that is meant to slow a guesser: a tenth of a second for each."""
    with patch.object(principals, "HASHER", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)):
        yield
