"""A decided call, decided again: before its effect is sent, and when people change what was asked for. Pure."""

from datetime import datetime, timedelta

from pydantic import JsonValue

from activities.deciding import Proposed, ask, evaluate, intend
from ledger.records import CallDetails, Step
from policy.document import format_duration
from policy.model import BREAKER, NOTHING_DONE, PARKED_PER_AGENT, PARKED_PER_TENANT, Policy, Usage
from schemas.codes import REGISTRY, Code
from schemas.decisions import PolicyDecision
from schemas.effects import Effect
from schemas.events import ApprovalVoided, CallAmended, CallSettled, EffectIntended
from schemas.proofs import is_stricter
from schemas.replies import Explanation
from schemas.switches import code_of


def stopped(switch: str, approval_id: str | None) -> Step:
    """The step that refuses a decided call that a kill switch covers."""
    code = code_of(switch)
    settled = CallSettled(status=REGISTRY[code].status, code=code)
    if approval_id is None:
        return Step([settled])
    return Step([ApprovalVoided(approval_id=approval_id, because=REGISTRY[code].title.lower(), facts={}), settled])


def voided(approval_id: str | None, because: str, facts: dict[str, JsonValue]) -> Step:
    """The step that refuses what a person, or for want of an `approval_id` the policy alone, had approved."""
    said = Explanation(values={"because": because})
    settled = CallSettled(status="refused", code=Code.APPROVAL_VOID, explanation=said)
    if approval_id is None:
        return Step([settled])
    return Step([ApprovalVoided(approval_id=approval_id, because=because, facts=facts), settled])


def intended(policy: Policy, proposed: Proposed, now: datetime) -> Step:
    """The step that writes the intent."""
    effect = intend(proposed, now)
    facts = proposed.facts.model_dump(mode="json")
    event = EffectIntended(effect=effect, policy_version=policy.version, facts=facts)
    return Step([event])


def intended_again(policy: Policy, proposed: Proposed, effect: Effect, now: datetime) -> Step:
    """The step that writes the intent to send an effect again, unchanged and under the key it was first sent with."""
    repeat = effect.model_copy(update={"attempt": effect.attempt + 1, "sent_again_at": now})
    facts = proposed.facts.model_dump(mode="json")
    event = EffectIntended(effect=repeat, policy_version=policy.version, facts=facts)
    return Step([event])


def still_allowed(
    policy: Policy, proposed: Proposed, details: CallDetails, approved_digest: str | None, reserved: int
) -> str | None:
    """Why a decided call may no longer run, on the facts as they are now; None when it may.

    `approved_digest` is what a person approved, None for a call that needed nobody. Counters stay as they were when it
    was admitted: it has been counted since. What a person approved covers the rules that held it then, not one that
    would hold it only now.
    """
    if approved_digest is not None and proposed.action_digest() != approved_digest:
        return "the facts have changed"
    decision = _asked_anew(policy, proposed, details, reserved)
    if decision.verdict == "refuse":
        return f"{REGISTRY[decision.code or Code.INTERNAL_FAILURE].title.lower()}: {decision.because}"
    covered = set(details.decision.rules) if details.decision else set[str]()
    if decision.verdict == "hold" and not set(decision.rules) <= covered:
        return "the policy asks for a person for another reason now"
    if decision.verdict == "hold" and decision.people > details.people:
        return "the policy asks for a second person now"
    if decision.verdict == "hold" and is_stricter(decision.proof, details.proof):
        return "the policy asks approvers to prove who they are now"
    return None


def asked_again(
    proposed: Proposed, decision: PolicyDecision, approval_id: str, approved_at: datetime, now: datetime
) -> Step | None:
    """The step that asks people once more, where what they approved could not run for longer than an approval lasts."""
    lasts = decision.execute_within_seconds
    if lasts is None or now < approved_at + timedelta(seconds=lasts):
        return None
    because = f"it could not be executed within {format_duration(lasts)}"
    facts = proposed.facts.model_dump(mode="json")
    void = ApprovalVoided(approval_id=approval_id, because=because, facts=facts)
    return Step([void, ask(proposed, decision, now)])


def amended(
    policy: Policy,
    proposed: Proposed,
    details: CallDetails,
    approval_id: str,
    principal: str,
    reason: str,
    now: datetime,
) -> Step | PolicyDecision:
    """The step that makes of a call that waits what a person proposes instead (`proposed`), or why the policy refuses
    that. It takes no more than before, so that what was counted for it still covers it."""
    decision = _asked_anew(policy, proposed, details)
    if decision.verdict == "refuse":
        return decision
    before = details.decision
    if decision.verdict != "hold" and before is not None:
        # A person decides it all the same: they have begun to.
        decision = before.model_copy(
            update={"people": 1, "proof": None, "because": "a person changed what was asked for"}
        )
    claim = proposed.claim
    event = CallAmended(
        approval_id=approval_id,
        principal=principal,
        arguments=proposed.call.arguments,
        reason=reason,
        amount=claim.amount if claim else 0,
        decision=decision,
    )
    return Step([event, ask(proposed, decision, now)])


def _asked_anew(policy: Policy, proposed: Proposed, details: CallDetails, reserved: int = 0) -> PolicyDecision:
    """The policy's decision about a call that was admitted. Counters stay as they were then: it has been counted."""
    policy_tool = policy.tool(proposed.call.tool)
    limits = [limit.name for limit in policy_tool.limits] if policy_tool else []
    unlimited = {name: Usage(0) for name in (*limits, BREAKER, PARKED_PER_AGENT, PARKED_PER_TENANT)}
    return evaluate(policy, proposed, details.run or NOTHING_DONE, details.totals, unlimited, reserved)
