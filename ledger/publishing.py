"""Signed publications: compact JWS (RFC 7515) with EdDSA over the JSON of a `Publication`, as decisions are signed."""

from typing import Literal

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey
from pydantic import ValidationError

from ledger.keys import MasterKey, RootKey
from schemas.policies import Publication

_ALGORITHM = "Ed25519"
_PURPOSE: Literal["policy-signing"] = "policy-signing"
_TYPE = "counterseal-policy+jws"


class BadPublication(Exception):
    """What was presented is no publication that a key here signed."""


def sign(publication: Publication, master: MasterKey) -> str:
    """Under the current master key's signing key, which the header names."""
    key = OKPKey.import_key(master.current.signing_key_pem(_PURPOSE))
    header = {"alg": _ALGORITHM, "typ": _TYPE, "kid": _key_id(master.current)}
    return jws.serialize_compact(header, publication.model_dump_json(), key, algorithms=[_ALGORITHM])


def verified(token: str, master: MasterKey) -> Publication:
    """What the token says, if the key that it names is one of these and signed it. Raises BadPublication."""
    root = _signer(token, master)
    if root is None:
        raise BadPublication
    try:
        key = OKPKey.import_key(root.verifying_key_pem(_PURPOSE))
        signed = jws.deserialize_compact(token, key, algorithms=[_ALGORITHM])
        if signed.headers().get("typ") != _TYPE:
            raise BadPublication
        return Publication.model_validate_json(signed.payload)
    except (JoseError, ValueError, ValidationError):
        raise BadPublication from None


def signed_under(token: str, master: MasterKey) -> str | None:
    """The id of the master key whose signing key it names, unverified; None when it is none of these."""
    root = _signer(token, master)
    return None if root is None else root.key_id


def _signer(token: str, master: MasterKey) -> RootKey | None:
    try:
        named = jws.extract_compact(token.encode()).headers().get("kid")
    except (JoseError, ValueError):
        return None
    return next((root for root in master.keys if _key_id(root) == named), None)


def _key_id(root: RootKey) -> str:
    return root.key_id.replace("mk_", "policies-", 1)
