"""Passkeys (WebAuthn): what the browser is asked for, and what it answers. https://www.w3.org/TR/webauthn-3/"""

import hashlib
import re
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from cbor2 import CBORDecodeError
from pydantic import ValidationError
from webauthn import (
    base64url_to_bytes,
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_registration_response,
)
from webauthn.helpers import bytes_to_base64url, parse_authentication_credential_json
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from api.context import Context
from ledger.passkeys import NONCE_SECONDS, Passkey
from ledger.principals import Person
from schemas.proofs import Assertion

_MALFORMED = (
    WebAuthnException, CBORDecodeError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError,
)  # fmt: skip
_NONCE = re.compile(r"[A-Za-z0-9_-]{43}")
_LONGEST = 8192


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """This service as authenticators know it. `origin`: where the pages have to be open."""

    rp_id: str
    origin: str


@dataclass(frozen=True, slots=True)
class NewKey:
    credential_id: bytes
    public_key: bytes
    sign_count: int


def relying_party(public_url: str) -> RelyingParty | None:
    """By the address at which people reach the service; None where browsers have no passkeys: at an IP address, or
    without encryption. This machine is known by its name: at a loopback address there are none either."""
    parts = urlsplit(public_url)
    host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
    try:
        if not ip_address(host).is_loopback:
            return None
        host = "localhost"
    except ValueError:
        pass
    if parts.scheme != "https" and not (host == "localhost" or host.endswith(".localhost")):
        return None
    return RelyingParty(host, f"{parts.scheme}://{host}{port}")


def options_to_add(party: RelyingParty, person: Person, nonce: str, known: list[Passkey]) -> str:
    """What `navigator.credentials.create` is called with, as JSON."""
    return options_to_json(
        generate_registration_options(
            rp_id=party.rp_id,
            rp_name="Counterseal",
            user_name=person.username,
            user_display_name=person.display_name,
            # Says nothing about the person, and is the same each time.
            user_id=hashlib.sha256(f"{person.tenant}\n{person.username}".encode()).digest(),
            challenge=base64url_to_bytes(nonce),
            timeout=NONCE_SECONDS * 1000,
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.PREFERRED,
                user_verification=UserVerificationRequirement.REQUIRED,
            ),
            exclude_credentials=_descriptors(known),
        )
    )


def options_to_sign(party: RelyingParty, challenge: bytes, known: list[Passkey]) -> str:
    """What `navigator.credentials.get` is called with, as JSON."""
    return options_to_json(
        generate_authentication_options(
            rp_id=party.rp_id,
            challenge=challenge,
            timeout=NONCE_SECONDS * 1000,
            allow_credentials=_descriptors(known),
            user_verification=UserVerificationRequirement.REQUIRED,
        )
    )


def new_key_of(party: RelyingParty, answer: str, nonce: str) -> NewKey | None:
    """The key that the browser made for that nonce, with its user verified; None where it is none. Attestations are not
    asked for, and not looked at."""
    if len(answer) > _LONGEST or _NONCE.fullmatch(nonce) is None:
        return None
    try:
        made = verify_registration_response(
            credential=answer,
            expected_challenge=base64url_to_bytes(nonce),
            expected_rp_id=party.rp_id,
            expected_origin=party.origin,
            require_user_verification=True,
        )
    except _MALFORMED:
        return None
    return NewKey(made.credential_id, made.credential_public_key, made.sign_count)


async def assertion_of(services: Context, person: Person, answer: str, nonce: str) -> Assertion | None:
    """What the browser answered, read and not yet verified; None where it cannot be read or names no passkey of
    theirs."""
    party = relying_party(services.public_url)
    if party is None or len(answer) > _LONGEST or _NONCE.fullmatch(nonce) is None:
        return None
    try:
        given = parse_authentication_credential_json(answer)
        known = await services.ledger.of(person.tenant).passkeys.of(person.tenant, person.username)
        key = next((each for each in known if each.credential_id == given.raw_id), None)
        if key is None:
            return None
        return Assertion(
            credential_id=bytes_to_base64url(given.raw_id),
            public_key=bytes_to_base64url(key.public_key),
            authenticator_data=bytes_to_base64url(given.response.authenticator_data),
            client_data_json=bytes_to_base64url(given.response.client_data_json),
            signature=bytes_to_base64url(given.response.signature),
            nonce=nonce,
            rp_id=party.rp_id,
            origin=party.origin,
        )
    except (*_MALFORMED, ValidationError):
        return None


def _descriptors(keys: list[Passkey]) -> list[PublicKeyCredentialDescriptor]:
    return [PublicKeyCredentialDescriptor(id=each.credential_id) for each in keys]
