"""What a passkey signed of a decision, and whether that holds. Pure; the signatures are the library's work.

https://www.w3.org/TR/webauthn-3/#sctn-verifying-assertion
"""

from typing import Literal

from cbor2 import CBORDecodeError
from webauthn import base64url_to_bytes, verify_authentication_response
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import AuthenticationCredential, AuthenticatorAssertionResponse

from schemas.canonical import digest
from schemas.decisions import HumanDecision
from schemas.proofs import Assertion


class BadAssertion(Exception):
    """No passkey signed this decision. Carries no text of the library's."""


def challenge_of(
    *,
    approval_id: str,
    action_digest: str,
    policy_version: str,
    verdict: Literal["approve", "deny"],
    approver: str,
    nonce: str,
) -> bytes:
    """What the authenticator signs: SHA-256 over canonical JSON (RFC 8785) of what is decided, how, and by whom."""
    return bytes.fromhex(
        digest(
            {
                "approval_id": approval_id,
                "action_digest": action_digest,
                "policy_version": policy_version,
                "verdict": verdict,
                "approver": approver,
                "nonce": nonce,
            }
        )
    )


def check_assertion(decision: HumanDecision, sign_count: int = 0) -> int:
    """The authenticator's count of signatures, where the passkey that the assertion names signed this very decision, at
    our own site, having verified its user. `sign_count`: the count that was seen last. Raises BadAssertion."""
    assertion = decision.proof.assertion if decision.proof else None
    if assertion is None:
        raise BadAssertion
    challenge = challenge_of(
        approval_id=decision.approval_id,
        action_digest=decision.action_digest,
        policy_version=decision.policy_version,
        verdict=decision.verdict,
        approver=decision.approver,
        nonce=assertion.nonce,
    )
    try:
        verified = verify_authentication_response(
            credential=_credential(assertion),
            expected_challenge=challenge,
            expected_rp_id=assertion.rp_id,
            expected_origin=assertion.origin,
            credential_public_key=base64url_to_bytes(assertion.public_key),
            credential_current_sign_count=sign_count,
            require_user_verification=True,
        )
    except (WebAuthnException, CBORDecodeError, ValueError, TypeError, KeyError, IndexError, RecursionError):
        raise BadAssertion from None
    return verified.new_sign_count


def holds(decision: HumanDecision) -> bool:
    """Whether what it says to be signed by a passkey is; true of one that does not say so."""
    if decision.proof is None or decision.proof.kind != "passkey":
        return True
    try:
        check_assertion(decision)
    except BadAssertion:
        return False
    return True


def _credential(assertion: Assertion) -> AuthenticationCredential:
    raw = base64url_to_bytes(assertion.credential_id)
    response = AuthenticatorAssertionResponse(
        client_data_json=base64url_to_bytes(assertion.client_data_json),
        authenticator_data=base64url_to_bytes(assertion.authenticator_data),
        signature=base64url_to_bytes(assertion.signature),
    )
    return AuthenticationCredential(id=assertion.credential_id, raw_id=raw, response=response)
