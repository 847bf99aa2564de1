"""The decision about one call. Pure, and it never raises for what it is asked: what cannot be decided is held."""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import cel

from policy.conditions import Condition, ConditionError
from policy.document import Limit, format_duration
from policy.model import (
    BREAKER,
    PARKED_PER_AGENT,
    PARKED_PER_TENANT,
    Hold,
    Policy,
    PolicyTool,
    Proposal,
    Refusal,
    Usage,
)
from policy.wording import plain
from schemas.codes import Code
from schemas.decisions import PolicyDecision
from schemas.proofs import ProofLevel, strictest
from schemas.replies import Explanation, Verdict

# Names of what is decided beside the rules of a policy, here or before a policy is asked; no rule may take one of them.
NO_MANIFEST = "no_manifest"
NO_POLICY = "no_policy"
EXCEEDS_AVAILABLE = "exceeds_available"
CRITICAL_RISK = "critical_risk"
OTHERWISE = "otherwise"
RESERVED_NAMES = frozenset(
    (
        *(NO_MANIFEST, NO_POLICY, EXCEEDS_AVAILABLE, CRITICAL_RISK, OTHERWISE),
        *(BREAKER, PARKED_PER_AGENT, PARKED_PER_TENANT),
        *("facts", "facts_unreadable", "phase", "policy_unusable", "switch"),
    )
)
# From how many attempts left in its run an agent is told of them.
WARN_FROM = 2
# A wait that is longer than this is not for an agent to sit out: runs seldom live longer.
LONGEST_WAIT_SECONDS = 3600


class _Reason(NamedTuple):
    """Why people are asked, whom, how many of them, for how long, who else after half of that, and for what proof."""

    rule: str
    because: str
    approvers: str
    deadline_seconds: int
    people: int
    escalates_to: str | None
    proof: ProofLevel | None


class _Case:
    """One proposal against one tool's policy: its values, and the answers of its conditions on them."""

    def __init__(self, policy: Policy, tool: PolicyTool, proposal: Proposal) -> None:
        self.policy = policy
        self.tool = tool
        self.proposal = proposal
        self.values: Mapping[str, object] = {
            "args": proposal.arguments,
            "facts": proposal.facts,
            "run": {"tools": proposal.run.tools, "touched": proposal.run.touched},
            "totals": proposal.totals,
            "thresholds": tool.thresholds,
        }
        self.undecided: list[_Reason] = []
        self._context: cel.Context | None = None
        refusals = len(tool.refusals)
        answers = self._answers(refusals + len(tool.holds))
        self.refusing = answers[:refusals]
        self.holding = answers[refusals:]
        """Of each rule whether its condition is true; None where that has no answer."""

    def _answers(self, count: int) -> list[bool | None]:
        if count == 0:
            return []
        try:
            self._context = self.tool.reads.context(self.values)
        except ConditionError:
            return [None] * count
        return self.tool.whens.answers(self._context)

    def advises(self, condition: Condition) -> bool:
        """Whether advice applies; not where that cannot be said."""
        try:
            return self._context is not None and condition.holds(self._context)
        except ConditionError:
            return False

    def not_evaluated(self, rule: str, people: int = 1, proof: ProofLevel | None = None) -> None:
        """Keep it as a reason to ask a person."""
        asked = _by_default(self.policy, rule, f"the rule {rule} could not be evaluated")
        self.undecided.append(asked._replace(people=people, proof=proof))


def decide(policy: Policy, proposal: Proposal) -> PolicyDecision:
    """What the policy says about a call; the first of these that applies decides:

    1. the tool has no manifest: hold; the policy does not name it: hold a write, refuse a read
    2. refuse rules, in the policy's order
    3. more than is left of what the call takes from (`Proposal.bound`): refuse
    4. the breaker (rule BREAKER: whoever records that turns the switch off), then limits, in order: refuse
    5. a condition that could not be evaluated, then hold rules: hold. `rules` names them all and `because` says them
       all; `rule`, approvers and deadline are the first one's, and it takes as many people and as strict a proof as any
       of them wants
    6. `otherwise`; for a tool of critical risk, hold instead of free or notify

    A call that nobody can be asked about, because too many wait already, is refused instead of held.
    """
    decision = _decided(policy, proposal)
    if decision.verdict == "refuse":
        return decision
    if decision.verdict == "hold" and (crowded := _crowded(policy, proposal)) is not None:
        return crowded
    left = _attempts_remaining(policy, proposal)
    return decision if left is None else decision.model_copy(update={"attempts_remaining": left})


def decide_read(policy: Policy, proposal: Proposal) -> PolicyDecision:
    """What the policy says about a call that changes nothing; such a call is free or refused, it never waits."""
    decision = decide(policy, proposal)
    if decision.verdict == "notify":
        return decision.model_copy(update={"verdict": "free"})
    if decision.verdict != "hold":
        return decision
    return decision.model_copy(
        update={"verdict": "refuse", "code": Code.TOOL_NOT_AVAILABLE, "explanation": Explanation()}
    )


def _decided(policy: Policy, proposal: Proposal) -> PolicyDecision:
    if proposal.manifest is None:
        return _held(policy, [_by_default(policy, NO_MANIFEST, "nothing is known about the tool")])
    tool = policy.tool(proposal.tool)
    if tool is None:
        return _no_policy(policy, writes=proposal.manifest.writes)
    case = _Case(policy, tool, proposal)
    return (
        _refused(case)
        or _exceeds(case)
        or _broken(case)
        or _limited(case)
        or _asked(case)
        or _otherwise(case, critical=proposal.manifest.effective_risk == "critical")
    )


def _no_policy(policy: Policy, *, writes: bool) -> PolicyDecision:
    because = "the policy does not name the tool"
    if writes:
        return _held(policy, [_by_default(policy, NO_POLICY, because)])
    return _refusal(policy, NO_POLICY, because, Code.TOOL_NOT_AVAILABLE, Explanation())


def _refused(case: _Case) -> PolicyDecision | None:
    for rule, applies in zip(case.tool.refusals, case.refusing, strict=True):
        if applies is None:
            case.not_evaluated(rule.name)
        elif applies:
            because = rule.because.render(case.values)
            return _refusal(case.policy, rule.name, because, rule.code, _explained(case, rule, because))
    return None


def _explained(case: _Case, rule: Refusal, because: str) -> Explanation:
    said: dict[str, str | int] = {name: plain(case.proposal.arguments.get(name)) for name in rule.said}
    use_tool = rule.use_tool
    if rule.use_tool_when is not None and not case.advises(rule.use_tool_when):
        use_tool = None  # advice only; the refusal stands
    return Explanation(
        values=said | {"because": because},
        action=None if use_tool is None else "use_other_tool",
        use_tool=use_tool,
    )


def _exceeds(case: _Case) -> PolicyDecision | None:
    bound = case.proposal.bound
    if bound is None or bound.claim.amount <= bound.claim.available:
        return None
    because = "it is more than is left"
    return _refusal(case.policy, EXCEEDS_AVAILABLE, because, bound.code, bound.exceeded(bound.claim))


def _broken(case: _Case) -> PolicyDecision | None:
    breaker, usage = case.tool.breaker, case.proposal.usage.get(BREAKER)
    if breaker is None:
        return None
    if usage is None:
        case.not_evaluated(BREAKER)
        return None
    if usage.used < breaker.max:
        return None
    because = f"{usage.used} calls of {case.tool.name} within {format_duration(breaker.window)}"
    return _refusal(case.policy, BREAKER, because, Code.CAPABILITY_DISABLED, Explanation())


def _crowded(policy: Policy, proposal: Proposal) -> PolicyDecision | None:
    if policy.parked is None:
        return None
    for rule, most, whose in (
        (PARKED_PER_AGENT, policy.parked.per_agent, "as many calls of this agent"),
        (PARKED_PER_TENANT, policy.parked.per_tenant, "as many calls"),
    ):
        waiting = proposal.usage.get(rule)
        if waiting is None or waiting.used >= most:
            because = f"a person would have to approve this, and {whose} as may wait for a person do so already"
            repair = "Nothing was done, and it does not wait for anyone. End your turn and hand over to a person."
            said = Explanation(values={"because": because, "repair": repair}, attempts_remaining=0)
            return _refusal(policy, rule, because, Code.RATE_LIMITED, said)
    return None


def _attempts_remaining(policy: Policy, proposal: Proposal) -> int | None:
    """How many more calls the run may make after this one; None while there are plenty, or no end."""
    tool, usage = policy.tool(proposal.tool), proposal.usage
    left = [limit.max - usage[limit.name].used - 1 for limit in tool.per_run if limit.name in usage] if tool else []
    fewest = min(left, default=WARN_FROM + 1)
    return fewest if 0 <= fewest <= WARN_FROM else None


def _limited(case: _Case) -> PolicyDecision | None:
    used, bound = case.proposal.usage, case.proposal.bound
    amount = None if bound is None else bound.claim.amount
    for limit in case.tool.limits:
        usage = used.get(limit.name)
        takes = amount if limit.of == "amount" else 1
        if usage is None or takes is None:
            case.not_evaluated(limit.name)
        elif usage.used + takes > limit.max:
            explanation = _over(limit, takes, usage)
            return _refusal(case.policy, limit.name, str(explanation.values["because"]), Code.RATE_LIMITED, explanation)
    return None


def _over(limit: Limit, takes: int, usage: Usage) -> Explanation:
    because = limit.because or f"{limit.max} {'calls' if limit.of == 'count' else 'minor units'} per {limit.per}"
    if limit.window is None or takes > limit.max:
        repair = "End your turn and hand over to a person."
        return Explanation(values={"because": because, "repair": repair}, attempts_remaining=0)
    seconds = max(1, limit.window if usage.retry_after_seconds is None else usage.retry_after_seconds)
    if seconds > LONGEST_WAIT_SECONDS:
        repair = f"There is room again in {seconds} seconds. End your turn and hand over to a person."
        return Explanation(
            values={"because": because, "repair": repair}, retry_after_seconds=seconds, attempts_remaining=0
        )
    repair = f"Try a new call with a new idempotency_key after {seconds} seconds, or hand over to a person."
    return Explanation(
        values={"because": because, "repair": repair},
        action="retry_after_delay",
        retry_after_seconds=seconds,
        attempts_remaining=0,
    )


def _asked(case: _Case) -> PolicyDecision | None:
    reasons: list[_Reason] = []
    for rule, applies in zip(case.tool.holds, case.holding, strict=True):
        if applies is None:
            case.not_evaluated(rule.name, rule.people, rule.proof)
        elif applies:
            reasons.append(_reason(rule, case))
    reasons = case.undecided + reasons
    return _held(case.policy, reasons) if reasons else None


def _reason(rule: Hold, case: _Case) -> _Reason:
    because = rule.because.render(case.values)
    return _Reason(
        rule.name, because, rule.approvers, rule.deadline_seconds, rule.people, rule.escalates_to, rule.proof
    )


def _otherwise(case: _Case, *, critical: bool) -> PolicyDecision:
    verdict = case.tool.otherwise
    if verdict == "refuse":
        because = "the policy allows no call of the tool"
        return _refusal(case.policy, OTHERWISE, because, Code.TOOL_NOT_AVAILABLE, Explanation())
    if verdict == "hold":
        return _held(case.policy, [_by_default(case.policy, OTHERWISE, "a person decides every call of the tool")])
    if critical:
        return _held(case.policy, [_by_default(case.policy, CRITICAL_RISK, "the tool is of critical risk")])
    return _let(verdict, case.policy.version)


@lru_cache(maxsize=64)
def _let(verdict: Verdict, version: str) -> PolicyDecision:
    """Most decisions are this one."""
    return PolicyDecision(verdict=verdict, rule=OTHERWISE, because="no rule asks for more", policy_version=version)


def _by_default(policy: Policy, rule: str, because: str) -> _Reason:
    return _Reason(rule, because, policy.approvers, policy.deadline_seconds, 1, policy.escalates_to, None)


def _held(policy: Policy, reasons: list[_Reason]) -> PolicyDecision:
    first = reasons[0]
    proofs: list[ProofLevel | None] = [reason.proof for reason in reasons]
    return PolicyDecision(
        verdict="hold",
        rule=first.rule,
        because="; ".join(reason.because for reason in reasons),
        policy_version=policy.version,
        rules=tuple(reason.rule for reason in reasons),
        approvers=first.approvers,
        deadline_seconds=first.deadline_seconds,
        people=max(reason.people for reason in reasons),
        proof=strictest(*proofs),
        escalates_to=first.escalates_to,
        execute_within_seconds=policy.execute_within_seconds,
    )


def _refusal(policy: Policy, rule: str, because: str, code: Code, explanation: Explanation) -> PolicyDecision:
    return PolicyDecision(
        verdict="refuse",
        rule=rule,
        because=because,
        policy_version=policy.version,
        code=code,
        explanation=explanation,
    )
