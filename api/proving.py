"""How a person proves that it is them: by password, a new sign-in at the provider, or a passkey."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal
from urllib.parse import urlencode

from fastapi import Request

from api.context import Context
from api.passkeys import assertion_of, relying_party
from ledger.passkeys import Passkey
from ledger.principals import Person
from schemas.decisions import Approval
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
    passkeys: bool = False
    passkey_only: bool = False
    """Where nothing else is enough."""

    @property
    def any(self) -> bool:
        return self.password or self.signed_in_at is not None or self.provider is not None or self.passkeys


@dataclass(frozen=True, slots=True)
class Unproven:
    """Why it is not proven. `wait`: seconds until the next attempt, where there were too many."""

    wrong: Literal["password", "passkey"] | None = None
    wait: int | None = None


def ways_of(person: Person, services: Context, page: str) -> Ways:
    """`page`: the path of the page for which it is proven."""
    provider = services.oidc.name if services.oidc is not None and person.issuer is not None else None
    link = f"/signin/oidc?{urlencode({'next': page, 'again': 'true'})}"
    return Ways(person.has_password, _signed_in_at(person, page), provider, link)


async def ways_to_approve(person: Person, services: Context, approval: Approval, page: str) -> Ways:
    """What there is for them of what the approval asks for."""
    ways = ways_of(person, services, page)
    if approval.proof is None or approval.status != "open":
        return ways
    keys: list[Passkey] = []
    if relying_party(services.public_url) is not None:
        keys = await services.ledger.of(person.tenant).passkeys.of(person.tenant, person.username)
    if approval.proof == "passkey":
        ways = replace(ways, password=False, signed_in_at=None, provider=None, passkey_only=True)
    return replace(ways, passkeys=bool(keys))


async def prove(request: Request, services: Context, person: Person, password: str, page: str) -> Proof | Unproven:
    """What they prove with that; a password is an attempt that is counted as those to sign in are."""
    now = datetime.now(UTC)
    signed_in_at = _signed_in_at(person, page)
    if signed_in_at is not None and not password:
        return Proof(kind="sign_in", at=signed_in_at)
    if not password or not person.has_password:
        return Unproven()
    wait = begin_attempt(request, services, person)
    if wait is not None:
        return Unproven(wait=wait)
    right = len(password) <= LONGEST_PASSWORD and await services.ledger.principals.is_password_of(
        person.username, password
    )
    if not right:
        return Unproven(wrong="password")
    attempt_succeeded(request, services, person)
    return Proof(kind="password", at=now)


async def prove_with_passkey(
    request: Request, services: Context, person: Person, answer: str, nonce: str
) -> Proof | Unproven:
    """What their passkey signed, of the browser's answer; whether it signed the decision, the ledger says."""
    wait = begin_attempt(request, services, person)
    if wait is not None:
        return Unproven(wait=wait)
    assertion = await assertion_of(services, person, answer, nonce)
    if assertion is None:
        return Unproven(wrong="passkey")
    return Proof(kind="passkey", at=datetime.now(UTC), assertion=assertion)


def begin_attempt(request: Request, services: Context, person: Person) -> int | None:
    """Count an attempt at it together with those at signing in; the seconds to wait where there were too many."""
    return services.sign_in_attempts.begin(person.username, request.client.host if request.client else "")


def attempt_succeeded(request: Request, services: Context, person: Person) -> None:
    services.sign_in_attempts.succeeded(person.username, request.client.host if request.client else "")


def _signed_in_at(person: Person, page: str) -> datetime | None:
    """When they signed in at the provider to prove it for this page, while that counts."""
    at = person.proven_at
    if at is None or person.proven_for != page:
        return None
    return at if datetime.now(UTC) - at <= timedelta(seconds=SIGN_IN_SECONDS) else None
