"""The encrypted part of a recorded decision."""

import asyncpg

from ledger.keys import DataKey
from schemas.base import Model
from schemas.canonical import canonical
from schemas.decisions import HumanDecision
from schemas.proofs import Proof


class DecisionBody(Model):
    """What the person wrote and proved, and the signed form, which holds it too."""

    reason: str
    token: str
    proof: Proof | None = None


def seal_decision(decision: HumanDecision, token: str, key: DataKey) -> bytes:
    """The body of a decision, whose signed form is `token`."""
    body = DecisionBody(reason=decision.reason, token=token, proof=decision.proof)
    return key.seal(body.model_dump_json().encode(), _context(decision.tenant, decision.decision_id))


def open_decision(row: asyncpg.Record, key: DataKey) -> DecisionBody:
    """Of a row of `decisions`."""
    return DecisionBody.model_validate_json(key.open(row["body"], _context(row["tenant"], row["decision_id"])))


def _context(tenant: str, decision_id: str) -> bytes:
    return canonical([tenant, decision_id, "decision"])
