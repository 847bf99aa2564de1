"""A recorded decision as it is kept: a row of `decisions`, part of it encrypted, made from the event that says it."""

from datetime import datetime
from typing import Any

import asyncpg

from ledger.keys import DataKey
from schemas.base import Model
from schemas.canonical import canonical
from schemas.events import ApprovalDenied, ApprovalGranted, ApprovalSupported
from schemas.proofs import Proof

PersonDecided = ApprovalGranted | ApprovalSupported | ApprovalDenied


class DecisionBody(Model):
    """What the person wrote and proved, and the signed form, which holds it too."""

    reason: str
    token: str
    proof: Proof | None = None


def decision_columns(event: PersonDecided, tenant: str, request_id: str, at: datetime) -> dict[str, Any]:
    """The plain columns, in the order in which statements take them."""
    return {
        "decision_id": event.decision_id,
        "approval_id": event.approval_id,
        "request_id": request_id,
        "tenant": tenant,
        "approver": event.approver,
        "verdict": "deny" if isinstance(event, ApprovalDenied) else "approve",
        "decided_at": at,
        "through": event.through,
        "proof": event.proof.kind if event.proof else None,
        "on_behalf_of": event.on_behalf_of,
    }


def body_of(event: PersonDecided) -> DecisionBody:
    return DecisionBody(reason=event.reason, token=event.token, proof=event.proof)


def open_decision(row: asyncpg.Record, key: DataKey) -> DecisionBody:
    """Of a row of `decisions`."""
    return DecisionBody.model_validate_json(key.open(row["body"], decision_context(row["tenant"], row["decision_id"])))


def decision_context(tenant: str, decision_id: str) -> bytes:
    return canonical([tenant, decision_id, "decision"])
