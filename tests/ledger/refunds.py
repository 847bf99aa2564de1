"""Refunds admitted straight into a ledger: the real policy and decision code over facts that a test makes up.

As a program (`python -m tests.ledger.refunds URL PAYMENT AMOUNT …`) it admits refunds of those amounts at once, from a
process and a pool of its own, and prints how each ended.
"""

import asyncio
import json
import secrets
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import JsonValue

from activities import deciding
from activities.deciding import Proposed
from ledger.admission import Admitted, Reads
from ledger.approvals import Verdict
from ledger.database import connect
from ledger.keys import MasterKey
from ledger.ledger import Ledger
from ledger.records import CallRecord, Step
from policy.load import DEFAULT_POLICY
from policy.model import NOTHING_DONE, Policy
from runtime.policy import load_checked
from schemas.calls import Binding, Call
from schemas.canonical import digest
from schemas.decisions import Approval, HumanDecision, PolicyDecision
from schemas.effects import Boundary, Exchange
from schemas.events import CallDecided, CallProposed
from schemas.ids import key_hash, new_decision_id, new_request_id, new_run_id, workflow_id
from tools.catalog import Catalog
from tools.issue_refund.models import IssueRefundArguments
from tools.protocol import WriteTool
from tools.refunds import RefundFacts

CATALOG = Catalog.load()
POLICY = load_checked(DEFAULT_POLICY, CATALOG)
MASTER = MasterKey(bytes(range(32)))
NOTE = "The parcel never arrived, says Ada Example"
TOOL = "issue_refund"


@asynccontextmanager
async def open_ledger(database: str, *, connections: int = 10) -> AsyncGenerator[Ledger]:
    """A ledger with a pool and a key cache of its own, as another process would have."""
    opened = await connect(database, maximum=connections)
    try:
        yield Ledger.over(opened, MASTER)
    finally:
        await opened.close()


def new_binding(**changes: str) -> Binding:
    mark = secrets.token_hex(6)
    binding = Binding(
        tenant=f"t{mark}", run_id=new_run_id(), agent_id="support-bot", actor_id="user_17", customer_id=f"cus_{mark}"
    )
    return binding.model_copy(update=changes)


ORDER = "ord_8f2b91a04c7d"


def facts(
    *,
    payment_id: str,
    available: int = 10_000,
    fraud_flag: bool = False,
    disputed: bool = False,
    order_id: str = ORDER,
) -> Any:
    """Facts of a delivered order whose one payment has `available` left."""
    return RefundFacts.model_validate_json(
        json.dumps(
            {
                "order": {
                    "order_id": order_id,
                    "status": "delivered",
                    "placed_at": "2026-01-02T03:04:05Z",
                    "age_minutes": 24_120,
                    "disputed": disputed,
                    "version": 3,
                    "currency": "USD",
                },
                "customer": {"fraud_flag": fraud_flag},
                "payment": {
                    "payment_id": payment_id,
                    "method": "card",
                    "last4": "4242",
                    "captured_cents": available,
                    "refunded_cents": 0,
                    "disputed": disputed,
                },
                "paid_cents": available,
                "refundable_cents": available,
                "facts_at": "2026-11-29T08:00:00Z",
            }
        )
    )


@dataclass(frozen=True)
class Refund:
    """One refund to be admitted."""

    amount: int
    payment_id: str = field(default_factory=lambda: f"pay_{secrets.token_hex(6)}")
    binding: Binding = field(default_factory=new_binding)
    available: int = 10_000
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    request_id: str = field(default_factory=new_request_id)
    order_id: str = ORDER
    policy: Policy = POLICY
    note: str = NOTE
    trace_id: str | None = None

    @property
    def proposed(self) -> Proposed:
        entry = CATALOG.get(TOOL)
        assert entry is not None
        assert isinstance(entry.tool, WriteTool)
        arguments: dict[str, JsonValue] = {
            "order_id": self.order_id,
            "amount_cents": self.amount,
            "currency": "USD",
            "reason_code": "damaged",
            "note": self.note,
            "idempotency_key": self.key,
        }
        call = Call(
            request_id=self.request_id,
            binding=self.binding,
            tool=TOOL,
            tool_version=entry.manifest.version,
            arguments=arguments,
            arguments_digest=digest(arguments),
            key_hash=key_hash(self.key),
            workflow_id=workflow_id(self.binding.tenant, TOOL, key_hash(self.key)),
            trace_id=self.trace_id,
        )
        known = facts(payment_id=self.payment_id, available=self.available, order_id=self.order_id)
        return Proposed(call, entry, entry.tool, IssueRefundArguments.model_validate(arguments), known)

    async def admit(self, ledger: Ledger, *, since: datetime | None = None) -> CallRecord:
        """Admit it on facts that were read at `since` (now unless given)."""
        proposed = self.proposed
        windows = deciding.windows_for(self.policy.tool(TOOL), proposed)

        def decide(reads: Reads) -> Admitted:
            return deciding.admit(self.policy, proposed, NOTHING_DONE, windows, reads, inline=True)

        resource, admissions = f"payment:{self.payment_id}", ledger.of(self.binding.tenant).admissions
        return await admissions.admit(
            proposed.call, windows, resource, since or datetime.now(UTC), decide, proposed.switches
        )


def took(call: Call, made: PolicyDecision, uses: dict[str, int]) -> Admitted:
    """Whatever the policy said to another call, this one takes that."""
    return Admitted([CallProposed(call=call), CallDecided(decision=made, facts={}, totals={}, uses=uses)])


async def parked(ledger: Ledger, **changes: Any) -> Approval:
    """A refund of 250.00 that waits for a person."""
    record = await Refund(25_000, available=50_000, **changes).admit(ledger)
    assert record.approval_id is not None
    approval = await ledger.of(record.tenant).approvals.get(record.tenant, record.approval_id)
    assert approval is not None
    return approval


def decision(approval: Approval, verdict: Literal["approve", "deny"] = "approve", **changes: Any) -> HumanDecision:
    made = HumanDecision(
        decision_id=new_decision_id(),
        approval_id=approval.approval_id,
        request_id=approval.request_id,
        tenant=approval.tenant,
        action_digest=approval.action_digest,
        policy_version=approval.policy_version,
        approver="ana",
        verdict=verdict,
        reason="",
        decided_at=datetime.now(UTC),
    )
    return made.model_copy(update=changes)


async def decide(ledger: Ledger, approval: Approval, **changes: Any) -> tuple[Verdict, CallRecord | None]:
    made = decision(approval, **changes)
    return await ledger.of(made.tenant).approvals.decide(made, f"signed:{made.decision_id}")


def exchange(reached: Boundary = "response_received") -> Exchange:
    return Exchange(
        system="payments",
        method="POST",
        path_template="/v1/refunds",
        reached=reached,
        upstream_status=200,
        elapsed_ms=9,
    )


async def advance(ledger: Ledger, record: CallRecord, step: Step) -> CallRecord:
    return (await ledger.of(record.tenant).calls.advance(record.request_id, lambda _, __: step))[0]


async def _main(url: str, payment_id: str, tenant: str, *amounts: str) -> None:
    async with open_ledger(url) as ledger:
        refunds = [Refund(int(each), payment_id, new_binding(tenant=tenant)) for each in amounts]
        records = await asyncio.gather(*(each.admit(ledger) for each in refunds))
    ended = [[int(each), record.code] for each, record in zip(amounts, records, strict=True)]
    sys.stdout.write(json.dumps(ended))


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
