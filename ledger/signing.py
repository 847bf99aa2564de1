"""Signed decisions: compact JWS (RFC 7515) with EdDSA over the JSON of a `HumanDecision`."""

from typing import Literal

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey
from pydantic import ValidationError

from ledger.keys import MasterKey
from schemas.decisions import HumanDecision

_ALGORITHM = "Ed25519"
_PURPOSE: Literal["decision-signing"] = "decision-signing"
_TYPE = "counterseal-decision+jws"


class BadDecision(Exception):
    """What was presented is not a decision signed by the approval surface. Carries one of our own words."""


def verifying_key_pem(master: MasterKey) -> bytes:
    """The public key that decisions are verified with, as PEM."""
    return master.verifying_key_pem(_PURPOSE)


class DecisionSigner:
    """Held by the approval surface only."""

    def __init__(self, master: MasterKey) -> None:
        self._key = OKPKey.import_key(master.signing_key_pem(_PURPOSE))

    def sign(self, decision: HumanDecision) -> str:
        header = {"alg": _ALGORITHM, "typ": _TYPE, "kid": "decisions-1"}
        return jws.serialize_compact(header, decision.model_dump_json(), self._key, algorithms=[_ALGORITHM])


class DecisionVerifier:
    """Verifies with the public key alone."""

    def __init__(self, public_pem: bytes) -> None:
        self._key = OKPKey.import_key(public_pem)

    @classmethod
    def of(cls, master: MasterKey) -> "DecisionVerifier":
        return cls(verifying_key_pem(master))

    def verify(self, token: str) -> HumanDecision:
        """The decision. Raises BadDecision for any other string."""
        try:
            signed = jws.deserialize_compact(token, self._key, algorithms=[_ALGORITHM])
            if signed.headers().get("typ") != _TYPE:
                raise BadDecision("other_type")
            return HumanDecision.model_validate_json(signed.payload)
        except (JoseError, ValueError, ValidationError) as problem:
            raise BadDecision("not_signed_by_the_approval_surface") from problem
