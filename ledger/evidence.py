"""What people decided about an approval, as a document that can be checked anywhere, without the ledger. Pure."""

from collections.abc import Mapping
from typing import Literal

from pydantic import JsonValue

from ledger.assertions import BadAssertion, check_assertion
from ledger.signing import BadDecision, DecisionVerifier, separate, signing_key
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
    """Everything about one approval's decisions that it takes to check them. `action` is what the digest stands for;
    `title` says it in words, and no digest or signature covers it."""

    record: Literal["decisions"] = "decisions"
    version: Literal[1] = 1
    approval_id: str
    title: str
    action: dict[str, JsonValue]
    action_digest: str
    service_key: str
    """The public key of the service that signed the decisions, as PEM; more than one, one after the other, where it was
    changed between them. Compare it with what you trust."""
    decisions: tuple[EvidencedDecision, ...]


def evidence_of(approval: Approval, tokens: list[str], keys: Mapping[str, bytes]) -> Evidence | None:
    """The document; None for an approval of which it was not kept what its digest stands for. `keys`: those that the
    service signed with, by id, as PEM. Raises BadDecision."""
    if approval.action is None:
        return None
    verifier = DecisionVerifier(named=keys)
    signed_with = {signing_key(token, keys) for token in tokens}
    return Evidence(
        approval_id=approval.approval_id,
        title=approval.title,
        action=approval.action,
        action_digest=approval.action_digest,
        service_key="".join(pem.decode() for pem in keys.values() if pem in signed_with),
        decisions=tuple(EvidencedDecision(decision=verifier.verify(token), token=token) for token in tokens),
    )


def check(evidence: Evidence, trusted_key: bytes | None = None) -> None:
    """Every decision is about this very action, is as the service signed it (with a key of `trusted_key`, PEM, where
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
        return DecisionVerifier(*separate(pem))
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
