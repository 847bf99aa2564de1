"""An OpenID provider in memory, shaped by OpenID Connect Core 1.0, that can say whatever a test wants it to say."""

import asyncio
import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey
from pydantic import SecretStr

from api.oidc import Provider, Registration
from api.oidc_claims import ClaimRules
from api.oidc_exchange import Exchanges

ISSUER = "https://login.example.com"
CLIENT = "counterseal"
SECRET = "secret of the tests: 100%"
ANA: dict[str, Any] = {
    "sub": "4f1d20aa",
    "name": "Ana Example",
    "preferred_username": "ana.example",
    "email": "ana@example.com",
    "email_verified": True,
    "groups": ["refund-approvers"],
}
ROLES = {"refund-approvers": frozenset({"finance"}), "platform": frozenset({"operator"})}
Answer = Callable[[httpx.Request], httpx.Response]


def rsa_key(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig", "alg": "RS256"})


# Making one takes long.
KEY, NEXT_KEY = rsa_key("first"), rsa_key("second")


@dataclass
class FakeProvider:
    """`person` is who signs in at it; `claims` are laid over those of the next ID token, None taking one away."""

    person: dict[str, Any] = field(default_factory=lambda: dict(ANA))
    claims: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    key: RSAKey | ECKey | OctKey = field(default_factory=lambda: KEY)
    published: list[dict[str, Any]] = field(default_factory=lambda: [dict(KEY.as_dict(private=False))])
    metadata: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    """By path: what is answered there instead."""
    userinfo: dict[str, Any] | None = None
    id_token: Callable[[str], str] | None = None
    """What is given in place of a good one, by the nonce."""
    requests: list[httpx.Request] = field(default_factory=list)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def asked(self, path: str) -> int:
        return sum(each.url.path == path for each in self.requests)

    def authorize(self, location: str) -> dict[str, str]:
        """The person signs in at the address that the browser was sent to: the response's parameters."""
        asked = {name: value for name, (value,) in parse_qs(urlsplit(location).query).items()}
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_hex(8)
        self._codes[code] = asked
        return {"code": code, "state": asked["state"], "iss": ISSUER}

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        made = self._answer(request)
        # As from a socket: it can still be read.
        return httpx.Response(made.status_code, headers=made.headers, stream=httpx.ByteStream(made.content))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.url.path in self.answers:
            return self.answers[request.url.path](request)
        match request.url.path:
            case "/.well-known/openid-configuration":
                return httpx.Response(200, json=self._discovery())
            case "/keys":
                return httpx.Response(200, json={"keys": self.published})
            case "/token":
                return self._token(request)
            case "/userinfo" if self.userinfo is not None and request.headers["authorization"] == "Bearer access":
                return httpx.Response(200, json=self.userinfo)
            case _:
                return httpx.Response(404)

    def _discovery(self) -> dict[str, Any]:
        document = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize?tenant=example",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/keys",
            "userinfo_endpoint": f"{ISSUER}/userinfo",
            "end_session_endpoint": f"{ISSUER}/end",
            "authorization_response_iss_parameter_supported": True,
            **self.metadata,
        }
        return {name: value for name, value in document.items() if value is not None}

    def _token(self, request: httpx.Request) -> httpx.Response:
        form = dict(parse_qsl(request.content.decode()))
        asked = self._codes.pop(form["code"], None)
        proof = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        if asked is None or asked["code_challenge"] != proof or asked["redirect_uri"] != form["redirect_uri"]:
            return httpx.Response(400, json={"error": "invalid_grant", "error_description": "<b>no</b>"})
        token = self.id_token(asked["nonce"]) if self.id_token else self.sign(asked["nonce"])
        return httpx.Response(200, json={"id_token": token, "access_token": "access", "token_type": "Bearer"})

    def sign(self, nonce: str) -> str:
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": CLIENT,
            "exp": now + 300,
            "iat": now,
            "nonce": nonce,
            **self.person,
            **self.claims,
        }
        content = json.dumps({name: value for name, value in claims.items() if value is not None})
        header: dict[str, Any] = {"alg": "RS256", "kid": self.key.kid, "typ": "JWT", **self.header}
        return jws.serialize_compact(header, content, self.key, algorithms=[header["alg"]])


def provider_of(
    fake: FakeProvider,
    base: str,
    *,
    secret: str | None = SECRET,
    username_claim: str = "preferred_username",
    roles: dict[str, frozenset[str]] = ROLES,
    clock: Callable[[], float] = time.monotonic,
) -> Provider:
    """The service's side of the fake one."""
    client = httpx.AsyncClient(transport=httpx.MockTransport(fake), trust_env=False)
    return Provider(
        Registration(
            issuer=ISSUER,
            client_id=CLIENT,
            client_secret=None if secret is None else SecretStr(secret),
            redirect_uri=f"{base}/signin/oidc/callback",
            signed_out_uri=f"{base}/signin",
        ),
        ClaimRules(username_claim, "groups", roles),
        "acme",
        Exchanges(client, deadline_seconds=0.5),
        clock=clock,
    )


async def never(request: httpx.Request) -> httpx.Response:
    """An answer that does not come."""
    await asyncio.Event().wait()
    raise AssertionError
