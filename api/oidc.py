"""Sign-in through an OpenID provider: authorization code flow with PKCE, as its discovery document says how.

OpenID Connect Core 1.0 and Discovery 1.0, RFC 7636 (PKCE, S256), RFC 9207 (`iss` in the response), RP-Initiated Logout.
"""

import asyncio
import base64
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, TypeVar
from urllib.parse import quote_plus, urlencode, urlsplit

from joserfc.jwk import KeySet
from pydantic import BaseModel, ConfigDict, JsonValue, SecretStr, StringConstraints, ValidationError

from api.oidc_claims import ClaimRules, EmailNotVerifiedError, identity_of
from api.oidc_exchange import Answer, Exchanges, ProviderUnavailableError
from api.oidc_tokens import LEEWAY_SECONDS, BadIdTokenError, UnknownKeyError, check_id_token, read_keys
from ledger.identities import Identity
from schemas.proofs import SIGN_IN_SECONDS

DISCOVERY = "/.well-known/openid-configuration"
# How long the discovery document and the keys are believed. Sooner, once, when a token names a key that is not there.
_KEPT_SECONDS = 600.0

M = TypeVar("M", bound=BaseModel)
Url = Annotated[str, StringConstraints(pattern=r"^https?://[!-~]+$", max_length=2000)]


class SignInRefusedError(Exception):
    """The provider vouches for nobody in this sign-in. Carries one of our own words."""

    @property
    def because(self) -> str:
        return str(self.args[0])


class Metadata(BaseModel):
    """What is used of a discovery document; it has more."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    issuer: str
    authorization_endpoint: Url
    token_endpoint: Url
    jwks_uri: Url
    userinfo_endpoint: Url | None = None
    end_session_endpoint: Url | None = None
    token_endpoint_auth_methods_supported: list[str] = ["client_secret_basic"]
    authorization_response_iss_parameter_supported: bool = False


class Tokens(BaseModel):
    """What is used of a token response."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    id_token: Annotated[str, StringConstraints(max_length=100_000)]
    access_token: Annotated[str, StringConstraints(pattern=r"^[!-~]{1,20000}$")] | None = None


@dataclass(frozen=True, slots=True)
class Registration:
    """This service as the provider knows it. Without a secret it is a public client, which PKCE is enough for."""

    issuer: str
    client_id: str
    client_secret: SecretStr | None
    redirect_uri: str
    signed_out_uri: str
    scopes: str = "openid profile email"


@dataclass(frozen=True, slots=True)
class _Known:
    metadata: Metadata
    keys: KeySet
    until: float


@dataclass(slots=True)
class Provider:
    """One OpenID provider, asked over `exchanges`; `tenant` is whose people it knows."""

    registration: Registration
    rules: ClaimRules
    tenant: str
    exchanges: Exchanges
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    _known: _Known | None = field(default=None, init=False)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    @property
    def name(self) -> str:
        """What people know it by: its host."""
        return urlsplit(self.registration.issuer).netloc

    async def authorization_url(self, *, state: str, nonce: str, verifier: str, again: bool = False) -> str:
        """Where the browser is sent to. `again`: the person has to prove who they are, whatever session they have
        there. Raises ProviderUnavailableError."""
        known = await self._ask()
        return _with_query(
            known.metadata.authorization_endpoint,
            {
                "response_type": "code",
                "client_id": self.registration.client_id,
                "redirect_uri": self.registration.redirect_uri,
                "scope": self.registration.scopes,
                "state": state,
                "nonce": nonce,
                "code_challenge": _urlsafe(hashlib.sha256(verifier.encode()).digest()),
                "code_challenge_method": "S256",
                # Either asks for it; the second one makes the provider say when it was, too.
                **({"prompt": "login", "max_age": "0"} if again else {}),
            },
        )

    async def sign_out_url(self) -> str | None:
        """Where a person ends their session at the provider; None where it has no such place or is away."""
        try:
            endpoint = (await self._ask()).metadata.end_session_endpoint
        except ProviderUnavailableError:
            return None
        if endpoint is None:
            return None
        told = {
            "client_id": self.registration.client_id,
            "post_logout_redirect_uri": self.registration.signed_out_uri,
        }
        return _with_query(endpoint, told)

    async def finish(self, response: Mapping[str, str], *, nonce: str, verifier: str, again: bool = False) -> Identity:
        """Whom the provider vouches for, by its response to the redirect URI (whose `state` was checked before).
        `again`: who proved it anew, minutes ago at most.

        Raises SignInRefusedError and ProviderUnavailableError.
        """
        known = await self._ask()
        issuer = response.get("iss")
        if issuer is None and known.metadata.authorization_response_iss_parameter_supported:
            raise SignInRefusedError("response_without_issuer")
        if issuer is not None and issuer != self.registration.issuer:
            raise SignInRefusedError("response_of_another_issuer")
        if "error" in response:
            denied = response["error"] == "access_denied"
            raise SignInRefusedError("denied_at_the_provider" if denied else "error_at_the_provider")
        if not response.get("code"):
            raise SignInRefusedError("response_without_code")
        tokens = await self._redeem(known.metadata, response["code"], verifier)
        try:
            claims = await self._check(known, tokens.id_token, nonce)
            claims = await self._complete(known.metadata, claims, tokens.access_token)
            identity = identity_of(self.registration.issuer, claims, self.rules)
        except (BadIdTokenError, EmailNotVerifiedError) as problem:
            raise SignInRefusedError(problem.because) from None
        if again and not _is_fresh(identity, self.now()):
            raise SignInRefusedError("not_signed_in_anew")
        return identity

    async def _redeem(self, metadata: Metadata, code: str, verifier: str) -> Tokens:
        """https://www.rfc-editor.org/rfc/rfc6749#section-4.1.3"""
        own = self.registration
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": own.redirect_uri,
            "code_verifier": verifier,
        }
        authorization = None
        methods = metadata.token_endpoint_auth_methods_supported
        if own.client_secret is None:
            form["client_id"] = own.client_id
        elif "client_secret_basic" in methods or "client_secret_post" not in methods:
            authorization = _basic(own.client_id, own.client_secret.get_secret_value())
        else:
            form |= {"client_id": own.client_id, "client_secret": own.client_secret.get_secret_value()}
        answer = await self.exchanges.post(metadata.token_endpoint, form, authorization=authorization)
        if answer.status == 400 and isinstance(answer.json, dict) and answer.json.get("error") == "invalid_grant":
            raise SignInRefusedError("code_not_taken")
        return _read(Tokens, answer, "token_response")

    async def _check(self, known: _Known, token: str, nonce: str) -> Mapping[str, JsonValue]:
        own, now = self.registration, int(self.now())
        check = partial(check_id_token, token, issuer=own.issuer, client_id=own.client_id, nonce=nonce, now=now)
        try:
            return check(known.keys)
        except UnknownKeyError:
            # The provider may have changed its keys since; if not, that is that.
            return check((await self._ask(instead_of=known)).keys)

    async def _complete(
        self, metadata: Metadata, claims: Mapping[str, JsonValue], access_token: str | None
    ) -> Mapping[str, JsonValue]:
        """With the claims that the ID token leaves to the UserInfo endpoint (OpenID Connect Core, 5.3 and 5.4)."""
        wanted = {self.rules.username_claim, self.rules.groups_claim}
        if metadata.userinfo_endpoint is None or access_token is None or wanted <= claims.keys():
            return claims
        answer = await self.exchanges.get(metadata.userinfo_endpoint, bearer=access_token)
        if answer.status != 200 or not isinstance(answer.json, dict):
            raise ProviderUnavailableError("userinfo_not_readable")
        if answer.json.get("sub") != claims["sub"]:
            raise SignInRefusedError("userinfo_of_somebody_else")
        return {**answer.json, **claims}

    async def _ask(self, instead_of: _Known | None = None) -> _Known:
        """The provider's metadata and keys, kept for a while. Raises ProviderUnavailableError."""
        async with self._asking:
            known = self._known
            if known is None or known is instead_of or known.until <= self.clock():
                known = self._known = await self._discover()
            return known

    async def _discover(self) -> _Known:
        issuer = self.registration.issuer
        metadata = _read(Metadata, await self.exchanges.get(issuer.rstrip("/") + DISCOVERY), "discovery")
        if metadata.issuer != issuer:
            raise ProviderUnavailableError("discovery_of_another_issuer")
        endpoints = [metadata.authorization_endpoint, metadata.token_endpoint, metadata.jwks_uri]
        endpoints += filter(None, [metadata.userinfo_endpoint, metadata.end_session_endpoint])
        if issuer.startswith("https:") and not all(each.startswith("https:") for each in endpoints):
            raise ProviderUnavailableError("discovery_not_encrypted")
        try:
            keys = read_keys((await self.exchanges.get(metadata.jwks_uri)).json)
        except ValueError:
            raise ProviderUnavailableError("keys_not_readable") from None
        return _Known(metadata, keys, self.clock() + _KEPT_SECONDS)


def new_verifier() -> str:
    """256 random bits, a PKCE verifier or a nonce."""
    return secrets.token_urlsafe(32)


def state_of(secret: str) -> str:
    """The `state` of a sign-in, by what the browser that began it holds: the one does not give the other away."""
    return _urlsafe(hashlib.sha256(secret.encode()).digest())


def _is_fresh(identity: Identity, now: float) -> bool:
    """Whether the provider says that the person proved it just now: https://openid.net/specs/openid-connect-core-1_0.html
    (3.1.2.1, `max_age`)."""
    if identity.seen_at is None:
        return False
    return -LEEWAY_SECONDS <= now - identity.seen_at.timestamp() <= SIGN_IN_SECONDS


def _read(model: type[M], answer: Answer, what: str) -> M:
    try:
        if answer.status != 200:
            raise ProviderUnavailableError(f"{what}_http_{answer.status}")
        return model.model_validate(answer.json)
    except ValidationError:
        raise ProviderUnavailableError(f"{what}_not_readable") from None


def _urlsafe(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _basic(client_id: str, secret: str) -> str:
    """Both are form-encoded first: https://www.rfc-editor.org/rfc/rfc6749#section-2.3.1"""
    pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _with_query(endpoint: str, query: Mapping[str, str]) -> str:
    return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(query)}"
