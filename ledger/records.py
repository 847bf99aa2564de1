"""A call as it stands: the row of `calls`, opened."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import asyncpg
from pydantic import JsonValue

from ledger.chain import Head
from ledger.data_keys import KeyDestroyed
from ledger.keys import DataKey
from schemas.base import Model
from schemas.calls import Call, Next, Progress, RunFacts
from schemas.canonical import canonical
from schemas.codes import Code, Status
from schemas.decisions import Approval, PolicyDecision
from schemas.effects import AlertKind, Effect, ReviewReason
from schemas.events import ApprovalRequested, Event
from schemas.proofs import ProofLevel
from schemas.replies import Explanation, Reply, reply_for

UseState = Literal["held", "spent", "released"]

BREAKER = "breaker"
"""Who turned off a switch that a breaker did."""

# Statuses in which nothing more will happen of itself.
SETTLED: frozenset[Status] = frozenset({"executed", "refused", "denied", "expired", "cancelled", "failed"})


class CallDetails(Model):
    """The encrypted part of a call."""

    call: Call
    requested: dict[str, JsonValue] | None = None
    """The arguments that the agent asked for, where a person changed them."""
    facts: dict[str, JsonValue]
    totals: dict[str, int]
    run: RunFacts | None = None
    decision: PolicyDecision | None = None
    explanation: Explanation | None = None
    result: dict[str, JsonValue] | None = None
    effect: Effect | None = None

    @property
    def people(self) -> int:
        """How many different people have to approve it."""
        return self.decision.people if self.decision else 1

    @property
    def proof(self) -> ProofLevel | None:
        """What each of them has to prove beside their session."""
        return self.decision.proof if self.decision else None


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call and the head of its chain."""

    request_id: str
    tenant: str
    agent_id: str
    tool: str
    workflow_id: str
    arguments_digest: str
    status: Status
    code: Code
    verdict: str | None
    rule: str | None
    policy_version: str | None
    approval_id: str | None
    operation_id: str | None
    intended_at: datetime | None
    remote_id: str | None
    review: ReviewReason | None
    recheck_at: datetime | None
    created_at: datetime
    updated_at: datetime
    head: Head
    details: CallDetails

    @property
    def settled(self) -> bool:
        return self.status in SETTLED

    def reply(self) -> Reply:
        """What the agent is told about the call as it stands."""
        details = self.details
        left = details.decision.attempts_remaining if details.decision else None
        return reply_for(
            self.code, self.request_id, details.explanation, result=details.result, attempts_remaining=left
        )

    def progress(self, next_: Next, **more: Any) -> Progress:
        """What the workflow is told."""
        decision = self.details.decision
        return Progress(
            request_id=self.request_id,
            next=next_,
            status=self.status,
            code=self.code,
            verdict=decision.verdict if decision else None,
            policy_version=self.policy_version,
            approval_id=self.approval_id,
            recheck_at=self.recheck_at,
            head=f"{self.head.n}:{self.head.hash.hex()}",
            **more,
        )


@dataclass(frozen=True, slots=True)
class Step:
    """One change of a call: the events that say it, which are all there is to say, and what operators are told."""

    events: Sequence[Event]
    alert: AlertKind | None = None

    @property
    def asks(self) -> Approval | None:
        """What people are asked from now on."""
        return next((each.approval for each in self.events if isinstance(each, ApprovalRequested)), None)


def trip_subject(switch: str) -> str:
    """The subject whose newest use says when the breaker last turned the switch off."""
    return f"{BREAKER}:{switch}"


def details_context(tenant: str, request_id: str) -> bytes:
    return canonical([tenant, request_id, "details"])


def open_record(row: asyncpg.Record, key: DataKey) -> CallRecord:
    """Decrypt a row of `calls`. Raises KeyDestroyed when its customer was erased, whatever key is at hand."""
    if row["erased_at"] is not None:
        raise KeyDestroyed(row["key_id"])
    details = CallDetails.model_validate_json(
        key.open(row["details"], details_context(row["tenant"], row["request_id"]))
    )
    return CallRecord(
        request_id=row["request_id"],
        tenant=row["tenant"],
        agent_id=row["agent_id"],
        tool=row["tool"],
        workflow_id=row["workflow_id"],
        arguments_digest=row["arguments_digest"],
        status=row["status"],
        code=Code(row["code"]),
        verdict=row["verdict"],
        rule=row["rule"],
        policy_version=row["policy_version"],
        approval_id=row["approval_id"],
        operation_id=row["operation_id"],
        intended_at=row["intended_at"],
        remote_id=row["remote_id"],
        review=row["review"],
        recheck_at=row["recheck_at"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        head=Head(row["n"], row["hash"]),
        details=details,
    )
