"""How a person proves beside their session that it is them: by their password, or by a new sign-in at the provider."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from fastapi import Request

from api.attempts import SignInAttempts
from api.context import Context
from ledger.principals import Person
from schemas.proofs import SIGN_IN_SECONDS, Proof

LONGEST_PASSWORD = 1000


@dataclass(frozen=True, slots=True)
class Ways:
    """How somebody can prove on a page that it is them. `signed_in_at`: by the sign-in from just now."""

    password: bool
    signed_in_at: datetime | None
    provider: str | None
    """The OpenID provider where they can sign in again."""
    provider_link: str

    @property
    def any(self) -> bool:
        return self.password or self.signed_in_at is not None or self.provider is not None


@dataclass(frozen=True, slots=True)
class Unproven:
    """Why it is not proven. `wait`: seconds until the next attempt, where there were too many."""

    wrong_password: bool = False
    wait: int | None = None


def ways_of(person: Person, services: Context, page: str) -> Ways:
    """`page`: the path of the page for which it is proven."""
    provider = services.oidc.name if services.oidc is not None and person.issuer is not None else None
    link = f"/signin/oidc?{urlencode({'next': page, 'again': 'true'})}"
    return Ways(person.has_password, _signed_in_at(person, page), provider, link)


async def prove(request: Request, services: Context, person: Person, password: str, page: str) -> Proof | Unproven:
    """What they prove with that; a password is an attempt that is counted as those to sign in are."""
    now = datetime.now(UTC)
    signed_in_at = _signed_in_at(person, page)
    if signed_in_at is not None and not password:
        return Proof(kind="sign_in", at=signed_in_at)
    if not password or not person.has_password:
        return Unproven()
    attempts: SignInAttempts = services.sign_in_attempts
    peer = request.client.host if request.client else ""
    wait = attempts.begin(person.username, peer)
    if wait is not None:
        return Unproven(wait=wait)
    right = len(password) <= LONGEST_PASSWORD and await services.ledger.principals.is_password_of(
        person.username, password
    )
    if not right:
        return Unproven(wrong_password=True)
    attempts.succeeded(person.username, peer)
    return Proof(kind="password", at=now)


def _signed_in_at(person: Person, page: str) -> datetime | None:
    """When they signed in at the provider to prove it for this page, while that counts."""
    at = person.proven_at
    if at is None or person.proven_for != page:
        return None
    return at if datetime.now(UTC) - at <= timedelta(seconds=SIGN_IN_SECONDS) else None
