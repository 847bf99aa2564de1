"""Credentials: fetched for one exchange, for the tool and tenant on whose behalf it is made."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import SecretStr


@dataclass(frozen=True, slots=True)
class Acting:
    """On whose behalf something is done outside."""

    tenant: str
    tool: str


@dataclass(frozen=True, slots=True)
class Credential:
    """A secret, and the name of the record it comes from; accounts of exchanges hold that in the secret's place."""

    record_id: str
    secret: SecretStr


class CredentialUnavailableError(Exception):
    """There is none to be had; `problem` says why. Nothing was sent."""

    def __init__(self, problem: Literal["vault_locked", "no_credential"]) -> None:
        super().__init__(problem)
        self.problem: Literal["vault_locked", "no_credential"] = problem


class CredentialSource(Protocol):
    """Where the credentials of remote systems come from."""

    async def credential(self, system: str) -> Credential:
        """The credential of a system, for whoever acts now. Raises CredentialUnavailableError."""
        ...


@dataclass(frozen=True, slots=True)
class OneCredential:
    """The same credential, whoever acts."""

    held: Credential

    async def credential(self, system: str) -> Credential:
        return self.held


_acting: ContextVar[Acting | None] = ContextVar("acting", default=None)


@contextmanager
def acting(for_: Acting) -> Generator[None]:
    """Exchanges in this context are made on behalf of this tool and tenant."""
    token = _acting.set(for_)
    try:
        yield
    finally:
        _acting.reset(token)


def acting_now() -> Acting | None:
    """Who acts in this context."""
    return _acting.get()
