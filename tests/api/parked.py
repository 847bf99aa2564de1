"""Calls parked in a real ledger, and the real application over it; only Temporal's client is a recorder."""

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Literal, cast
from unittest.mock import patch

from fastapi import FastAPI
from pydantic import JsonValue
from starlette.routing import BaseRoute
from temporalio.client import Client

from activities.outcomes import needs_review
from activities.reconsidering import voided
from api.app import create_app
from api.context import Context
from api.deciding import Decider, decide
from api.diagnosing import EdgeDiagnostics
from api.pages import approval as approval_page
from api.waiting import Waiters
from ledger.admission import Admitted
from ledger.database import Database, connect
from ledger.keys import MasterKey
from ledger.ledger import Ledger
from ledger.records import CallRecord, Step
from ledger.signing import DecisionSigner
from policy.in_force import Fixed
from policy.load import DEFAULT_POLICY
from runtime.codec import payload_codec
from runtime.policy import load_checked
from schemas.calls import Binding, Call
from schemas.canonical import digest
from schemas.codes import Code
from schemas.decisions import Approval, PolicyDecision, SignedDecision
from schemas.effects import Effect, Exchange, ReviewReason
from schemas.events import (
    ApprovalRequested,
    ApprovalVoided,
    CallDecided,
    CallProposed,
    CallSettled,
    EffectConfirmed,
    EffectInspected,
    EffectIntended,
    EffectUnknown,
)
from schemas.ids import new_approval_id, new_request_id, new_run_id, workflow_id
from schemas.replies import Explanation
from tests.passwords import quick_hashes
from tools.catalog import Catalog

TENANT = "acme"
PASSWORD = "a long example password"
UI = "http://127.0.0.1:8233"
CATALOG = Catalog.load()
POLICY = load_checked(DEFAULT_POLICY, CATALOG)


class RecordingTemporal:
    """Stands where Temporal's client does: keeps the decisions signalled to it and the workflows told to look, and does
    what a worker would do on a signal."""

    def __init__(self) -> None:
        self.signals: list[tuple[str, str, SignedDecision]] = []
        self.told_to_look: list[str] = []
        self.on_signal: Callable[[], Awaitable[None]] | None = None

    def get_workflow_handle(self, workflow_id: str) -> "_Handle":
        return _Handle(self, workflow_id)

    def verdicts(self) -> list[str]:
        return [signed.verdict for _, _, signed in self.signals]


@dataclass(frozen=True, slots=True)
class _Handle:
    temporal: RecordingTemporal
    workflow_id: str

    async def signal(self, name: str, argument: SignedDecision | None = None) -> None:
        if argument is not None:
            self.temporal.signals.append((self.workflow_id, name, argument))
        elif name == "look":
            self.temporal.told_to_look.append(self.workflow_id)
        if self.temporal.on_signal is not None:
            await self.temporal.on_signal()


@dataclass(frozen=True, slots=True)
class Office:
    """The application, the ledger under it, and what Temporal was told."""

    app: FastAPI
    ledger: Ledger
    temporal: RecordingTemporal

    async def park(self, **changes: Any) -> Approval:
        """One parked refund of 312.40 USD; `changes` are fields of its approval."""
        return await park(self.ledger, **changes)

    async def decide(self, approval: Approval, verdict: Literal["approve", "deny"], *, reason: str = "") -> None:
        """Decided by ben, on another screen."""
        ben = Decider(TENANT, "ben", frozenset({"finance"}))
        digest = approval.action_digest
        decided = await decide(
            self.app.state.context, ben, approval.approval_id, verdict, action_digest=digest, reason=reason
        )
        assert decided.refused is None


@asynccontextmanager
async def office(database: str, *, public_url: str = "http://counterseal.test") -> AsyncGenerator[Office]:
    """The application over a fresh ledger with three people: ana and ben (finance), and olga (operator)."""
    opened = await connect(database)
    # Nothing settles a call here, so that a page would wait in vain for it after each decision.
    with quick_hashes(), patch.object(approval_page, "_SETTLING_SECONDS", 0.05):
        try:
            yield await _open(opened, public_url)
        finally:
            await opened.close()


async def _open(database: Database, public_url: str) -> Office:
    master = MasterKey(bytes(32))
    ledger = Ledger.over(database, master)
    for name, roles in (("ana", ["finance"]), ("ben", ["finance"]), ("olga", ["operator"])):
        await ledger.principals.add_user(TENANT, name, f"{name.title()} Example", PASSWORD, roles)
    temporal = RecordingTemporal()
    app = create_app(lambda app: _nothing())
    app.router.routes[:] = _routes()
    app.state.context = Context(
        ledger=ledger,
        catalog=CATALOG,
        signer=DecisionSigner(master),
        temporal=cast("Client", temporal),
        waiters=Waiters(ledger.calls),
        task_queue="counterseal",
        eager_start=False,
        public_url=public_url,
        edge_diagnostics=EdgeDiagnostics(ledger.diagnostics, tenant=TENANT),
        codec=payload_codec(master),
        policies=Fixed(POLICY),
        tenant=TENANT,
        temporal_ui_url=UI,
    )
    return Office(app, ledger, temporal)


@cache
def _routes() -> list[BaseRoute]:
    """Those of every application here. They keep nothing of it, and FastAPI works out what each of them depends on when
    it is first matched: done for every test, that took a third of its time."""
    return create_app(lambda app: _nothing()).router.routes


@asynccontextmanager
async def _nothing() -> AsyncGenerator[None]:
    yield


def facts(**payment: Any) -> dict[str, Any]:
    return {
        "order": {
            "order_id": "ord_8f2b91a04c7d",
            "status": "delivered",
            "placed_at": "2026-11-12T09:30:00Z",
            "age_minutes": 24_120,
            "disputed": False,
            "version": 3,
            "currency": "USD",
        },
        "customer": {"fraud_flag": False},
        "payment": {
            "payment_id": "pay_0e6eca9d290aa9f9",
            "method": "credit_card",
            "last4": "4242",
            "captured_cents": 45_900,
            "refunded_cents": 5_000,
            "disputed": False,
            **payment,
        },
        "paid_cents": 45_900,
        "refundable_cents": 40_900,
        "facts_at": "2026-11-29T08:00:00Z",
    }


async def park(ledger: Ledger, *, expires_in: timedelta = timedelta(hours=23), **changes: Any) -> Approval:
    now = datetime.now(UTC)
    binding = Binding(
        tenant=changes.get("tenant", TENANT),
        run_id=new_run_id(),
        agent_id=changes.get("agent_id", "support-bot"),
        actor_id=changes.get("actor_id", "user_17"),
        customer_id=changes.get("customer_id", "cus_4f1d20aa9c01"),
    )
    refund: dict[str, JsonValue] = {
        "order_id": "ord_8f2b91a04c7d",
        "amount_cents": 31_240,
        "currency": "USD",
        "reason_code": "not_delivered",
        "idempotency_key": secrets.token_hex(16),
    }
    arguments: dict[str, JsonValue] = changes.get("arguments", refund)
    key = secrets.token_hex(32)
    tool = changes.get("tool", "issue_refund")
    call = Call(
        request_id=new_request_id(),
        binding=binding,
        tool=tool,
        tool_version="1.0.0",
        arguments=arguments,
        arguments_digest=digest(arguments),
        key_hash=key,
        workflow_id=workflow_id(binding.tenant, tool, key),
    )
    approval = Approval(
        approval_id=new_approval_id(),
        request_id=call.request_id,
        tenant=binding.tenant,
        tool=call.tool,
        tool_version=call.tool_version,
        title="Refund 312.40 USD to the credit card ending 4242 of order ord_8f2b91a04c7d",
        arguments=arguments,
        facts=facts(),
        facts_at=now,
        rule="over_threshold",
        rules=("over_threshold",),
        because="the amount is over the threshold of 200.00 USD",
        policy_version="default@3f1c0a9be21d",
        action_digest=digest({"arguments": arguments, "salt": key}),
        status="open",
        approvers="finance",
        requested_at=now,
        expires_at=now + expires_in,
        untrusted={"note": "The parcel never arrived; the customer waited for three weeks."},
        agent_id=binding.agent_id,
        actor_id=binding.actor_id,
        customer_id=binding.customer_id,
        run_id=binding.run_id,
    ).model_copy(update=changes)
    decision = PolicyDecision(
        verdict="hold",
        rule=approval.rule,
        rules=approval.rules,
        because=approval.because,
        policy_version=approval.policy_version,
        approvers=approval.approvers,
        people=approval.people,
        proof=approval.proof,
        deadline_seconds=86_400,
    )
    events = (
        CallProposed(call=call),
        CallDecided(decision=decision, facts=approval.facts, totals={}),
        ApprovalRequested(
            approval_id=approval.approval_id,
            action_digest=approval.action_digest,
            title=approval.title,
            approvers=approval.approvers,
            expires_at=approval.expires_at,
            approval=approval,
        ),
    )
    await ledger.admissions.record(call, Admitted(events), approval.requested_at)
    return approval


_EXCHANGE = Exchange(
    system="payments",
    method="POST",
    path_template="/v1/refunds",
    reached="bytes_sent",
    elapsed_ms=120,
    problem="timeout",
)


TARGET: dict[str, JsonValue] = {
    "order_id": "ord_8f2b91a04c7d",
    "payment_id": "pay_0e6eca9d290aa9f9",
    "amount_cents": 31_240,
    "currency": "USD",
    "reason_code": "not_delivered",
}


def operation_of(request_id: str) -> str:
    """What the effect of a call is known by at the other system."""
    return f"op_{request_id.removeprefix('act_')}"


async def lose_answer(ledger: Ledger, request_id: str, *, target: dict[str, JsonValue] = TARGET) -> None:
    """The effect was sent and nobody knows what became of it."""

    def step(record: CallRecord, now: datetime) -> Step:
        effect = Effect(
            request_id=request_id,
            tool=record.tool,
            operation_id=operation_of(request_id),
            gateway_key="key_example",
            target=target,
            intended_at=now,
        )
        events = (
            EffectIntended(effect=effect, policy_version="default@3f1c0a9be21d", facts={}),
            EffectUnknown(operation_id=effect.operation_id, exchange=_EXCHANGE, operation="refund"),
        )
        return Step(events)

    await ledger.calls.advance(request_id, step)


async def ask_for_review(ledger: Ledger, request_id: str, because: ReviewReason = "absent") -> None:
    """The effect was looked up in vain, and operators are asked."""

    def step(record: CallRecord, now: datetime) -> Step:
        effect = record.details.effect
        assert effect is not None
        asked = needs_review(effect, because)
        problem = None if because == "absent" else because
        exchange = _EXCHANGE.model_copy(
            update={"method": "GET", "reached": "response_received", "upstream_status": 200, "problem": problem}
        )
        found = "absent" if because == "absent" else "unknown"
        looked = EffectInspected(operation_id=effect.operation_id, found=found, exchange=exchange)
        return replace(asked, events=[looked, *asked.events])

    await ledger.calls.advance(request_id, step)


async def ask_again(ledger: Ledger, approval: Approval, because: str, **changes: Any) -> Approval:
    """It was approved and no longer held: people are asked anew; `changes` are fields of the new approval."""
    again = approval.model_copy(
        update={"approval_id": new_approval_id(), "status": "open", "requested_at": datetime.now(UTC), **changes}
    )

    def step(record: CallRecord, now: datetime) -> Step:
        void = ApprovalVoided(approval_id=approval.approval_id, because=because, facts=again.facts)
        requested = ApprovalRequested(
            approval_id=again.approval_id,
            action_digest=again.action_digest,
            title=again.title,
            approvers=again.approvers,
            expires_at=again.expires_at,
            approval=again,
        )
        return Step([void, requested])

    await ledger.calls.advance(approval.request_id, step)
    return again


async def void(ledger: Ledger, approval: Approval, because: str, facts_then: dict[str, Any]) -> None:
    """It was approved, and ended on the facts as they were then."""
    await ledger.calls.advance(
        approval.request_id, lambda record, now: voided(approval.approval_id, because, facts_then)
    )


async def confirm(
    ledger: Ledger, request_id: str, *, at: datetime | None = None, remote_id: str = "re_example"
) -> None:
    """The effect happened, at that time by the other system's clock."""

    def step(record: CallRecord, now: datetime) -> Step:
        said = Explanation(values={"done": "refunded 312.40 USD of order ord_8f2b91a04c7d"})
        exchange = _EXCHANGE.model_copy(update={"reached": "response_received", "problem": None})
        events = (
            EffectConfirmed(
                operation_id=operation_of(request_id),
                remote_id=remote_id,
                result={},
                exchange=exchange,
                remote_at=at,
            ),
            CallSettled(status="executed", code=Code.OK, explanation=said, result={"refund_id": remote_id}),
        )
        return Step(events)

    await ledger.calls.advance(request_id, step)
