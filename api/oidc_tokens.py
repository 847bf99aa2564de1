"""ID tokens, checked as OpenID Connect Core 1.0 (3.1.3.7) says. Pure; signatures and keys are joserfc's work.

https://openid.net/specs/openid-connect-core-1_0.html#IDTokenValidation
"""

import hmac
from collections.abc import Mapping
from typing import Any, cast

from joserfc import jws, jwt
from joserfc.errors import ClaimError, ExpiredTokenError, InvalidKeyIdError, JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet
from pydantic import JsonValue

# Public-key signatures only: with a symmetric one the client secret, or a public key taken for a secret, would sign.
ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519",
)  # fmt: skip
LEEWAY_SECONDS = 60
_KEY_TYPES = ("RSA", "EC", "OKP")
_MOST_KEYS = 100
_LONGEST_SUBJECT = 255
# Unknown header parameters are ignored (RFC 7515, 4), save those that `crit` names.
_REGISTRY = jws.JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)


class BadIdTokenError(Exception):
    """The token is not one for this sign-in. Carries one of our own words."""

    @property
    def because(self) -> str:
        return str(self.args[0])


class UnknownKeyError(BadIdTokenError):
    """It says to be signed with a key that the provider did not have when it was asked."""


def read_keys(document: JsonValue) -> KeySet:
    """The keys of a JWK set (RFC 7517) that can verify signatures. Raises ValueError when there is none."""
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("not a JWK set")
    keys: list[Key] = []
    for each in listed[:_MOST_KEYS]:
        if not isinstance(each, dict) or each.get("kty") not in _KEY_TYPES or each.get("use", "sig") != "sig":
            continue
        try:
            keys.append(JWKRegistry.import_key(cast("dict[str, Any]", each)))
        except (JoseError, ValueError, TypeError, KeyError):
            # One that cannot be used leaves the others usable.
            continue
    if not keys:
        raise ValueError("no key that verifies signatures")
    return KeySet(keys)


def check_id_token(
    token: str, keys: KeySet, *, issuer: str, client_id: str, nonce: str, now: int
) -> Mapping[str, JsonValue]:
    """The claims. `now` in seconds since the epoch. Raises UnknownKeyError, and BadIdTokenError."""
    try:
        claims = jwt.decode(token, keys, registry=_REGISTRY).claims
    except InvalidKeyIdError:
        raise UnknownKeyError("id_token_unknown_key") from None
    except (JoseError, ValueError, TypeError, KeyError):
        raise BadIdTokenError("id_token_not_genuine") from None
    registry = jwt.JWTClaimsRegistry(
        now=now,
        leeway=LEEWAY_SECONDS,
        iss={"essential": True, "value": issuer},
        sub={"essential": True},
        aud={"essential": True, "value": client_id},
        exp={"essential": True},
        iat={"essential": True},
        nonce={"essential": True},
    )
    try:
        registry.validate(claims)
    except ExpiredTokenError:
        raise BadIdTokenError("id_token_expired") from None
    except ClaimError:
        raise BadIdTokenError("id_token_for_another_purpose") from None
    if not isinstance(claims["nonce"], str) or not hmac.compare_digest(claims["nonce"].encode(), nonce.encode()):
        raise BadIdTokenError("id_token_of_another_sign_in")
    several = isinstance(claims["aud"], list) and claims["aud"] != [client_id]
    if claims.get("azp", None if several else client_id) != client_id:
        raise BadIdTokenError("id_token_for_another_client")
    if not claims["sub"].isprintable() or len(claims["sub"]) > _LONGEST_SUBJECT:
        raise BadIdTokenError("id_token_subject_not_usable")
    return claims
