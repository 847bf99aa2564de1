"""What people decided about an approval, as a document that can be checked anywhere, without the ledger. Pure."""

from typing import Literal

from pydantic import JsonValue

from ledger.assertions import BadAssertion, check_assertion
from ledger.signing import BadDecision, DecisionVerifier
from schemas.base import Model
from schemas.canonical import digest
from schemas.decisions import Approval, HumanDecision


class BrokenEvidence(Exception):
    """The document does not hold: one sentence of ours that says what is wrong."""


class EvidencedDecision(Model):
    """A decision in the clear, and the signed form that it is compared with."""

    decision: HumanDecision
    token: str


class Evidence(Model):
    """Everything about one approval's decisions that it takes to check them. `action` is what the digest stands for."""

    record: Literal["decisions"] = "decisions"
    version: Literal[1] = 1
    approval_id: str
    title: str
    action: dict[str, JsonValue]
    action_digest: str
    service_key: str
    """The public key of the service that signed the decisions, as PEM. Compare it with one that you trust."""
    decisions: tuple[EvidencedDecision, ...]


def evidence_of(approval: Approval, tokens: list[str], verifier: DecisionVerifier, service_key: str) -> Evidence | None:
    """The document; None for an approval of which it was not kept what its digest stands for. Raises BadDecision."""
    if approval.action is None:
        return None
    return Evidence(
        approval_id=approval.approval_id,
        title=approval.title,
        action=approval.action,
        action_digest=approval.action_digest,
        service_key=service_key,
        decisions=tuple(EvidencedDecision(decision=verifier.verify(token), token=token) for token in tokens),
    )


def check(evidence: Evidence, trusted_key: bytes | None = None) -> None:
    """Every decision is about this very action, is as the service signed it (with the key of `trusted_key`, PEM, where
    given), and is signed by the passkey that it names where it names one. Raises BrokenEvidence."""
    if digest(evidence.action) != evidence.action_digest:
        raise BrokenEvidence("The action is not the one that its digest stands for.")
    if not evidence.decisions:
        raise BrokenEvidence("It holds no decision.")
    verifier = _verifier(trusted_key if trusted_key is not None else evidence.service_key.encode())
    for each in evidence.decisions:
        _check(each, evidence, verifier)
    approvers = [each.decision.approver for each in evidence.decisions]
    if len(set(approvers)) != len(approvers):
        raise BrokenEvidence("It holds two decisions of one person.")


def _verifier(pem: bytes) -> DecisionVerifier:
    try:
        return DecisionVerifier(pem)
    except (ValueError, TypeError):
        raise BrokenEvidence("The service's key is none.") from None


def _check(each: EvidencedDecision, evidence: Evidence, verifier: DecisionVerifier) -> None:
    decision, who = each.decision, each.decision.approver
    try:
        signed = verifier.verify(each.token)
    except BadDecision:
        raise BrokenEvidence(f"The decision of {who} is not signed by the service's key.") from None
    if signed != decision:
        raise BrokenEvidence(f"The decision of {who} is not the one that the service signed.")
    if (decision.approval_id, decision.action_digest) != (evidence.approval_id, evidence.action_digest):
        raise BrokenEvidence(f"The decision of {who} is about another action.")
    if decision.proof is None or decision.proof.kind != "passkey":
        return
    try:
        check_assertion(decision)
    except BadAssertion:
        raise BrokenEvidence(f"The passkey that the decision of {who} names did not sign it.") from None
