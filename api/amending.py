"""A person changes what an agent asked for instead of denying it: a new action, which people decide anew."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from pydantic import JsonValue
from pydantic_core import to_json

from activities.deciding import Proposed
from activities.reconsidering import amended
from api.context import Context
from api.deciding import Decider, may_decide
from api.reach import covering
from ledger.approvals import Verdict
from ledger.records import CallRecord, Step
from policy.in_force import PolicyUnusable
from schemas.calls import Call
from schemas.decisions import Approval, PolicyDecision
from schemas.ids import is_approval_id
from tools.catalog import Entry
from tools.protocol import Refusal, WriteArguments, WriteTool

NotAmended = Literal[
    "not_found",
    "not_yours",
    "reason_required",
    "claimed",
    "not_amendable",
    "unchanged",
    "invalid",
    "takes_more",
    "refused",
    "already_decided",
    "expired",
]


@dataclass(frozen=True, slots=True)
class Amended:
    """The approval that people are asked for now, or why there is none; `because` in the policy's words."""

    approval_id: str | None
    refused: NotAmended | None = None
    because: str = ""


def amendable(services: Context, approval: Approval) -> tuple[str, ...]:
    """The arguments of a call that a person may change while it waits."""
    entry = services.catalog.get(approval.tool)
    if entry is None or not isinstance(entry.tool, WriteTool):
        return ()
    return entry.tool.amendable


async def amend(
    services: Context, decider: Decider, approval_id: str, changes: Mapping[str, JsonValue], *, reason: str
) -> Amended:
    """Change arguments of a call that waits. It may take less than before, or as much for another reason, never more:
    limits and sums were counted for what it was.

    The policy is asked about the new action, on the facts that the approval shows; they are read again before anything
    is sent, as always. Nothing is approved by this.
    """
    if not is_approval_id(approval_id):
        return Amended(None, "not_found")
    own = services.ledger.of(decider.tenant)
    approval = await own.approvals.get(decider.tenant, approval_id)
    if approval is None:
        return Amended(None, "not_found")
    if not may_decide(decider, approval, "deny"):
        return Amended(None, "not_yours")
    if not reason.strip():
        return Amended(None, "reason_required")
    if approval.claimed_by is not None and not decider.is_one(approval.claimed_by.username):
        return Amended(None, "claimed")
    entry = services.catalog.get(approval.tool)
    if entry is None or not changes or not set(changes) <= set(amendable(services, approval)):
        return Amended(None, "not_amendable")
    before = (await own.calls.read(approval.request_id)).details.call
    proposed = _proposed(services, entry, approval, before, changes)
    if not isinstance(proposed, Proposed):
        return Amended(None, proposed)

    try:
        policy = await services.policies.now()
    except PolicyUnusable as problem:
        return Amended(None, "refused", str(problem))
    outcome: list[PolicyDecision | Step] = []

    def step(record: CallRecord, now: datetime) -> Step | None:
        change = amended(policy, proposed, record.details, approval_id, decider.username, reason.strip(), now)
        outcome.append(change)
        return change if isinstance(change, Step) else None

    verdict, _ = await own.approvals.amend(approval, step, covering(approval, services.catalog))
    match (verdict, outcome):
        case (Verdict.RECORDED, [Step(asks=Approval() as successor)]):
            return Amended(successor.approval_id)
        case (Verdict.RECORDED, [PolicyDecision() as decision]):
            return Amended(None, "refused", decision.because)
        case (Verdict.EXPIRED, _):
            return Amended(None, "expired")
        case _:
            return Amended(None, "already_decided")


def _proposed(
    services: Context, entry: Entry, approval: Approval, call: Call, changes: Mapping[str, JsonValue]
) -> Proposed | NotAmended:
    """Pure. The call as it would be, on the facts that the approval shows."""
    tool = cast("WriteTool[Any, Any, Any]", entry.tool)
    changed = {**call.arguments, **changes}
    if changed == call.arguments:
        return "unchanged"
    arguments = services.catalog.validate_arguments(approval.tool, changed)
    if isinstance(arguments, Refusal) or not isinstance(arguments, WriteArguments):
        return "invalid"
    facts = tool.facts_model.model_validate_json(to_json(approval.facts))
    proposed = Proposed(call.model_copy(update={"arguments": changed}), entry, tool, arguments, facts)
    was = services.catalog.validate_arguments(approval.tool, call.arguments)
    if proposed.claim is not None and isinstance(was, WriteArguments):
        took = tool.claim(was, facts)
        if took is None or proposed.claim.amount > took.amount or proposed.claim.resource != took.resource:
            return "takes_more"
    return proposed
