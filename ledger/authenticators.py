"""Verifying what an authenticator signed: the library's work. Slow to import, and most processes never need it."""

from cbor2 import CBORDecodeError
from webauthn import base64url_to_bytes, verify_authentication_response
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import AuthenticationCredential, AuthenticatorAssertionResponse

from schemas.proofs import Assertion


class NotVerified(Exception):
    """The library refused it. Carries no text of the library's."""


def verified_count(assertion: Assertion, challenge: bytes, sign_count: int) -> int:
    """The authenticator's count of signatures, where it signed this challenge. Raises NotVerified."""
    try:
        return verify_authentication_response(
            credential=_credential(assertion),
            expected_challenge=challenge,
            expected_rp_id=assertion.rp_id,
            expected_origin=assertion.origin,
            credential_public_key=base64url_to_bytes(assertion.public_key),
            credential_current_sign_count=sign_count,
            require_user_verification=True,
        ).new_sign_count
    except (WebAuthnException, CBORDecodeError, ValueError, TypeError, KeyError, IndexError, RecursionError):
        raise NotVerified from None


def _credential(assertion: Assertion) -> AuthenticationCredential:
    raw = base64url_to_bytes(assertion.credential_id)
    response = AuthenticatorAssertionResponse(
        client_data_json=base64url_to_bytes(assertion.client_data_json),
        authenticator_data=base64url_to_bytes(assertion.authenticator_data),
        signature=base64url_to_bytes(assertion.signature),
    )
    return AuthenticationCredential(id=assertion.credential_id, raw_id=raw, response=response)
