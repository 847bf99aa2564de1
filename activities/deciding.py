"""The decision about a call, as a pure function of what was read. Nothing here touches the outside."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pydantic import JsonValue

from activities.counting import counted, uses, windows
from ledger.admission import Admitted, Reads, Window
from policy import decide
from policy.document import format_duration
from policy.model import (
    BREAKER,
    Bound,
    Policy,
    PolicyTool,
    Proposal,
    Usage,
)
from schemas.base import Model
from schemas.calls import Call, RunFacts
from schemas.canonical import digest
from schemas.codes import REGISTRY, Code
from schemas.decisions import Approval, Claim, PolicyDecision, ShadowDecision
from schemas.effects import Effect
from schemas.events import (
    ApprovalRequested,
    BreakerTripped,
    CallDecided,
    CallProposed,
    CallSettled,
    EffectIntended,
    Event,
    LimitHit,
)
from schemas.ids import new_approval_id, new_gateway_key, new_operation_id
from schemas.replies import Explanation
from schemas.switches import code_of, of_call
from schemas.tools import Manifest
from tools.catalog import Entry
from tools.doings import first_step, in_phase
from tools.protocol import Refusal, WriteArguments, WriteTool

REDACTED = "(redacted)"
"""Stands for the value of an argument that nobody is shown."""


@dataclass(frozen=True, slots=True)
class Proposed:
    """A write that is to be decided: the call, its tool, its validated arguments, and the facts read for it."""

    call: Call
    entry: Entry
    tool: WriteTool[Any, Any, Any]
    arguments: WriteArguments
    facts: Model

    @property
    def switches(self) -> list[str]:
        """The kill switches that cover it."""
        return of_call(self.call.binding, self.call.tool, self.entry.manifest.capability_classes)

    @property
    def claim(self) -> Claim | None:
        return self.tool.claim(self.arguments, self.facts)

    def action(self) -> dict[str, JsonValue]:
        """What an approval binds: tenant, tool, version, arguments, and the facts that matter."""
        return {
            "tenant": self.call.binding.tenant,
            "tool": self.call.tool,
            # As it would run: a tool that was replaced since is not the one that was looked at.
            "tool_version": self.entry.manifest.version,
            "arguments": self.shown_arguments,
            "facts": self.tool.matters(self.facts),
        }

    @property
    def shown_arguments(self) -> dict[str, JsonValue]:
        """The arguments, without the values of those that the manifest lets nobody see."""
        redacted = self.entry.manifest.redact
        return {name: REDACTED if name in redacted else value for name, value in self.call.arguments.items()}

    def action_digest(self) -> str:
        """That in short (RFC 8785, SHA-256)."""
        return digest(self.action())


def windows_for(policy_tool: PolicyTool | None, proposed: Proposed) -> list[Window]:
    """What the ledger has to count for a decision."""
    call = proposed.call
    does = {name: value for name, value in call.arguments.items() if name not in _words(proposed.tool)}
    return windows(policy_tool, call, does, proposed.claim)


class ContendedError(Exception):
    """It is more than is left besides what others hold, and some of that may be in the facts already."""


def contend(proposed: Proposed, reads: Reads) -> None:
    """Raises ContendedError."""
    claim = proposed.claim
    if claim is not None and reads.reserved > 0 and claim.amount > claim.available - reads.reserved:
        raise ContendedError


def evaluate(
    policy: Policy,
    proposed: Proposed,
    run: RunFacts,
    totals: Mapping[str, int],
    usage: Mapping[str, Usage],
    reserved: int,
) -> PolicyDecision:
    """What can never be allowed, then the policy, on the facts as they are."""
    refusal = proposed.tool.check(proposed.arguments, proposed.facts)
    if refusal is not None:
        return refused_by_facts(policy, refusal)
    bound = None
    left = _left(proposed, reserved)
    if left is not None:
        tool = proposed.tool
        bound = Bound(
            left, lambda c: tool.exceeded(proposed.arguments, proposed.facts, c.available), tool.exceeded_code
        )
    return decide.decide(
        policy,
        Proposal(
            tool=proposed.call.tool,
            manifest=proposed.entry.manifest,
            arguments=proposed.call.arguments,
            facts=proposed.facts.model_dump(mode="json"),
            run=run,
            totals=totals,
            usage=usage,
            bound=bound,
        ),
    )


def _left(proposed: Proposed, reserved: int) -> Claim | None:
    """What the call takes, with what others have left of it."""
    claim = proposed.claim
    return claim and claim.model_copy(update={"available": claim.available - reserved})


def switched_off(policy: Policy, switch: str) -> PolicyDecision:
    """What a kill switch that is off says."""
    code = code_of(switch)
    return PolicyDecision(
        verdict="refuse",
        rule="switch",
        because=REGISTRY[code].title.lower(),
        policy_version=policy.version,
        code=code,
        explanation=Explanation(),
    )


def undecidable(version: str) -> PolicyDecision:
    """What is said while nothing can be decided by the policy in force, which claims to be this version."""
    return PolicyDecision(
        verdict="refuse",
        rule="policy_unusable",
        because="the policy in force cannot be used",
        policy_version=version,
        code=Code.CAPABILITY_DISABLED,
        explanation=Explanation(),
    )


def out_of_phase(policy: Policy, manifest: Manifest) -> PolicyDecision:
    """What is said to a call of a tool that its run is not offered yet, or no more."""
    first = first_step(manifest.phase)
    return PolicyDecision(
        verdict="refuse",
        rule="phase",
        because="the run has not come to where the tool is offered",
        policy_version=policy.version,
        code=Code.TOOL_NOT_AVAILABLE,
        explanation=Explanation(action="use_other_tool", use_tool=first),
    )


def refused_by_facts(policy: Policy, refusal: Refusal) -> PolicyDecision:
    return PolicyDecision(
        verdict="refuse",
        rule="facts",
        because=REGISTRY[refusal.code].title,
        policy_version=policy.version,
        code=refusal.code,
        explanation=refusal.explanation,
    )


def refused(
    call: Call, decision: PolicyDecision, run: RunFacts, *more: Event, shadow: ShadowDecision | None = None
) -> Admitted:
    """A call that ends here, its facts unread; `more` happened with that."""
    return _ended(call, CallDecided(decision=decision, facts={}, totals={}, run=run, shadow=shadow), *more)


def _ended(call: Call, decided: CallDecided, *more: Event) -> Admitted:
    decision = decided.decision
    code = decision.code or Code.INTERNAL_FAILURE
    events: list[Event] = [CallProposed(call=call), decided, *more]
    if code is Code.RATE_LIMITED:
        events.append(LimitHit(limit=decision.rule, subject=call.binding.run_id))
    events.append(CallSettled(status=REGISTRY[code].status, code=code, explanation=decision.explanation))
    return Admitted(events)


def _tripped(proposed: Proposed, tool: PolicyTool, decided: CallDecided) -> Admitted:
    """A call that ends here, and with it all that the breaker's switch covers."""
    decision, breaker = decided.decision, tool.breaker
    if breaker is None:
        raise LookupError("only a breaker trips")
    event = BreakerTripped(
        switch=breaker.trips, tool=tool.name, max=breaker.max, window_seconds=breaker.window, because=decision.because
    )
    ended = _ended(proposed.call, decided, event)
    at_most = f"the policy lets {breaker.max} run in {format_duration(breaker.window)}"
    return replace(ended, tripped_because=f"{decision.because}, and {at_most}")


def admit(
    policy: Policy,
    proposed: Proposed,
    run: RunFacts,
    windows: list[Window],
    reads: Reads,
    *,
    inline: bool,
    shadow: ShadowDecision | None = None,
) -> Admitted:
    """What becomes of a new write. `shadow` is written down beside it."""
    call, tool = proposed.call, policy.tool(proposed.call.tool)
    totals, usage = counted(tool, reads)
    if reads.switched_off is not None:
        decision = switched_off(policy, reads.switched_off)
    elif reads.doings is not None and not in_phase(proposed.entry.manifest.phase, reads.doings):
        decision = out_of_phase(policy, proposed.entry.manifest)
    else:
        decision = evaluate(policy, proposed, run, totals, usage, reads.reserved)
    runs = decision.verdict != "refuse"
    facts = proposed.facts.model_dump(mode="json")
    decided = CallDecided(
        decision=decision,
        facts=facts,
        totals=totals,
        uses=dict(uses(proposed.claim, windows, asked=decision.verdict == "hold")) if runs else {},
        usage={name: each.used for name, each in usage.items()},
        claim=_left(proposed, reads.reserved),
        run=run,
        shadow=shadow,
    )
    if not runs and decision.rule == BREAKER and tool is not None:
        return _tripped(proposed, tool, decided)
    if not runs:
        return _ended(call, decided)
    events: list[Event] = [CallProposed(call=call), decided]
    if decision.verdict == "hold":
        events.append(ask(proposed, decision, reads.now))
    elif inline:
        effect = intend(proposed, reads.now)
        events.append(EffectIntended(effect=effect, policy_version=decision.policy_version, facts=facts))
    return Admitted(events)


def intend(proposed: Proposed, now: datetime) -> Effect:
    """The effect as it will be sent, with the keys it keeps for every repeat."""
    return Effect(
        request_id=proposed.call.request_id,
        tool=proposed.call.tool,
        operation_id=new_operation_id(),
        gateway_key=new_gateway_key(),
        target=proposed.tool.target(proposed.arguments, proposed.facts),
        intended_at=now,
    )


def _words(tool: WriteTool[Any, Any, Any]) -> set[str]:
    """Arguments that do not say what is to be done."""
    return {"idempotency_key", *tool.untrusted_arguments}


def ask(proposed: Proposed, decision: PolicyDecision, now: datetime) -> ApprovalRequested:
    """What people are asked."""
    call, facts = proposed.call, proposed.facts
    words = {
        name: value
        for name in proposed.tool.untrusted_arguments
        if isinstance(value := proposed.shown_arguments.get(name), str) and value
    }
    hidden = _words(proposed.tool)
    lasts = timedelta(seconds=decision.deadline_seconds or 86_400)
    approval = Approval(
        approval_id=new_approval_id(),
        request_id=call.request_id,
        tenant=call.binding.tenant,
        tool=call.tool,
        tool_version=call.tool_version,
        title=proposed.tool.title(proposed.arguments, facts),
        arguments={name: value for name, value in proposed.shown_arguments.items() if name not in hidden},
        facts=facts.model_dump(mode="json"),
        facts_at=now,
        rule=decision.rule,
        rules=decision.rules,
        because=decision.because,
        policy_version=decision.policy_version,
        action_digest=proposed.action_digest(),
        action=proposed.action(),
        status="open",
        approvers=decision.approvers or "finance",
        people=decision.people,
        proof=decision.proof,
        escalates_to=decision.escalates_to,
        escalates_at=now + lasts / 2 if decision.escalates_to else None,
        execute_within_seconds=decision.execute_within_seconds,
        requested_at=now,
        # Whole seconds: the deadline that the agent and the workflow are told is the very one that is judged by.
        expires_at=now.replace(microsecond=0) + lasts,
        untrusted=words,
        agent_id=call.binding.agent_id,
        actor_id=call.binding.actor_id,
        customer_id=call.binding.customer_id,
        run_id=call.binding.run_id,
        owner=call.binding.owner,
        amount=proposed.claim.amount if proposed.claim else None,
        currency=proposed.claim.currency if proposed.claim else None,
    )
    return ApprovalRequested(
        approval_id=approval.approval_id,
        action_digest=approval.action_digest,
        title=approval.title,
        approvers=approval.approvers,
        expires_at=approval.expires_at,
        approval=approval,
    )


def decide_read(policy: Policy, call: Call, entry: Entry, run: RunFacts) -> PolicyDecision:
    """What the policy says about a call that changes nothing."""
    return decide.decide_read(
        policy, Proposal(tool=call.tool, manifest=entry.manifest, arguments=call.arguments, run=run)
    )


def answered(
    call: Call,
    decision: PolicyDecision,
    run: RunFacts,
    result: dict[str, JsonValue],
    *,
    code: Code,
    done: str,
    shadow: ShadowDecision | None = None,
) -> Admitted:
    """A read that was answered."""
    said = Explanation(values={"done": done})
    events: list[Event] = [
        CallProposed(call=call),
        CallDecided(decision=decision, facts={}, totals={}, run=run, shadow=shadow),
        CallSettled(status="executed", code=code, explanation=said, result=result),
    ]
    return Admitted(events)


# What the owner of the facts said, where it said something about us.
_UNREADABLE = {
    "auth_failed": Code.AUTH_FAILED,
    "forbidden": Code.REMOTE_FORBIDDEN,
    "vault_locked": Code.VAULT_LOCKED,
    "no_credential": Code.INTERNAL_FAILURE,
    "result_too_large": Code.INTERNAL_FAILURE,
    "not_configured": Code.INTERNAL_FAILURE,
}


def unreadable(policy: Policy, problem: str) -> PolicyDecision:
    """What is said to a call whose facts cannot be had: it fails closed, and nothing was sent."""
    code = _UNREADABLE.get(problem, Code.NETWORK_UNREACHABLE)
    said = Explanation(retry_after_seconds=5 if code is Code.NETWORK_UNREACHABLE else None)
    return PolicyDecision(
        verdict="refuse",
        rule="facts_unreadable",
        because="the facts could not be read",
        policy_version=policy.version,
        code=code,
        explanation=said,
    )
