"""What a passkey signed of a decision, and whether that holds. Pure; the signatures are the library's work.

https://www.w3.org/TR/webauthn-3/#sctn-verifying-assertion
"""

from typing import Literal

from schemas.canonical import digest
from schemas.decisions import HumanDecision


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
    # Here, so that only those wait for its import who verify something.
    from ledger.authenticators import NotVerified, verified_count

    try:
        return verified_count(assertion, challenge, sign_count)
    except NotVerified:
        raise BadAssertion from None


def holds(decision: HumanDecision) -> bool:
    """Whether what it says to be signed by a passkey is; true of one that does not say so."""
    if decision.proof is None or decision.proof.kind != "passkey":
        return True
    try:
        check_assertion(decision)
    except BadAssertion:
        return False
    return True
