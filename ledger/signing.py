"""Signed decisions: compact JWS (RFC 7515) with EdDSA over the JSON of a `HumanDecision`.

Each master key signs with a key of its own, which the header names (`kid`): what a former one signed verifies for as
long as that is there.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey
from pydantic import ValidationError

from ledger.keys import MasterKey, RootKey
from schemas.decisions import HumanDecision

_ALGORITHM = "Ed25519"
_PURPOSE: Literal["decision-signing"] = "decision-signing"
_TYPE = "counterseal-decision+jws"
_PEM = re.compile(rb"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----\n?", re.DOTALL)
_BEFORE_IDS = "decisions-1"
"""What the key was called before there were several."""


class BadDecision(Exception):
    """What was presented is not a decision signed by the approval surface. Carries one of our own words."""


def key_id_of(root: RootKey) -> str:
    """What the key is called that a master key signs decisions with."""
    return root.key_id.replace("mk_", "decisions-", 1)


def verifying_keys(master: MasterKey) -> dict[str, bytes]:
    """The public keys that decisions are verified with, by id, as PEM; the current one first."""
    return {key_id_of(each): each.verifying_key_pem(_PURPOSE) for each in master.keys}


def verifying_key_pem(master: MasterKey) -> bytes:
    """The public key of the decisions that are signed now, as PEM."""
    return master.current.verifying_key_pem(_PURPOSE)


def signed_under(token: str, master: MasterKey) -> str | None:
    """The id of the master key whose signing key a signed decision names, unverified; None when it is none of these."""
    return {key_id_of(root): root.key_id for root in master.keys}.get(named_key(token) or "")


def named_key(token: str) -> str | None:
    """The id of the key that a signed decision names, unverified; None when it names none, or from before ids."""
    try:
        kid = jws.extract_compact(token.encode()).headers().get("kid")
    except (JoseError, ValueError):
        return None
    return kid if isinstance(kid, str) and kid != _BEFORE_IDS else None


def signing_key(token: str, keys: Mapping[str, bytes]) -> bytes:
    """Which of these keys (by id, as PEM) signed it. Raises BadDecision."""
    for key_id, pem in keys.items():
        with suppress(BadDecision):
            DecisionVerifier(named={key_id: pem}).verify(token)
            return pem
    raise BadDecision("not_signed_by_the_approval_surface")


def separate(pems: bytes) -> list[bytes]:
    """Public keys that stand one after the other as PEM. Raises ValueError when there is none."""
    found = _PEM.findall(pems)
    if not found:
        raise ValueError("there is no public key")
    return found


class DecisionSigner:
    """Held by the approval surface only."""

    def __init__(self, master: MasterKey) -> None:
        self._key = OKPKey.import_key(master.current.signing_key_pem(_PURPOSE))
        self._key_id = key_id_of(master.current)

    def sign(self, decision: HumanDecision) -> str:
        header = {"alg": _ALGORITHM, "typ": _TYPE, "kid": self._key_id}
        return jws.serialize_compact(header, decision.model_dump_json(), self._key, algorithms=[_ALGORITHM])


class DecisionVerifier:
    """Verifies with public keys alone."""

    def __init__(self, *public_pems: bytes, named: Mapping[str, bytes] | None = None) -> None:
        """Keys as PEM, of which one has to fit: any of `public_pems`, and of `named` the one that a token names."""
        self._any = [OKPKey.import_key(pem) for pem in public_pems]
        self._named = {key_id: OKPKey.import_key(pem) for key_id, pem in (named or {}).items()}

    @classmethod
    def of(cls, master: MasterKey) -> "DecisionVerifier":
        return cls(named=verifying_keys(master))

    def verify(self, token: str) -> HumanDecision:
        """The decision. Raises BadDecision for any other string."""
        named = named_key(token)
        # A token from before ids fits any key; one that names a key, that one alone.
        fitting = self._named.values() if named is None else filter(None, [self._named.get(named)])
        for key in (*self._any, *fitting):
            try:
                signed = jws.deserialize_compact(token, key, algorithms=[_ALGORITHM])
                if signed.headers().get("typ") != _TYPE:
                    raise BadDecision("other_type")
                return HumanDecision.model_validate_json(signed.payload)
            except (JoseError, ValueError, ValidationError):
                continue
        raise BadDecision("not_signed_by_the_approval_surface")
