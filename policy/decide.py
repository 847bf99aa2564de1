"""The decision about one call. Pure, and it never raises for what it is asked: what cannot be decided is held."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

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
from policy.wording import Wording, plain
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
_NO_VALUES: Mapping[str, object] = {}


class _Reason(NamedTuple):
    """Why people are asked, whom, how many of them, for how long, who else after half of that, and for what proof."""

    rule: str
    because: Wording | str
    approvers: str
    deadline_seconds: int
    people: int
    escalates_to: str | None
    proof: ProofLevel | None


class Judged(NamedTuple):
    """What is decided, before anything is put into words: that costs more than deciding, and not everyone reads it."""

    verdict: Verdict
    rule: str
    code: Code | None = None
    reasons: Sequence[_Reason] = ()
    """Of a hold: why, the first one first."""
    values: Mapping[str, object] = _NO_VALUES
    """What the reasons name."""
    said: Callable[[], tuple[str, Explanation]] | None = None
    """Of a refusal: why, and what the agent is told."""

    @property
    def rules(self) -> tuple[str, ...]:
        return tuple(reason.rule for reason in self.reasons)

    @property
    def people(self) -> int:
        return max((reason.people for reason in self.reasons), default=1)

    @property
    def approvers(self) -> str | None:
        return self.reasons[0].approvers if self.reasons else None


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
        refusals = len(tool.refusals)
        answers = tool.whens.answers(self.values)
        self.refusing = answers[:refusals]
        self.holding = answers[refusals:]
        """Of each rule whether its condition is true; None where that has no answer."""

    def advises(self, condition: Condition) -> bool:
        """Whether advice applies; not where that cannot be said."""
        try:
            return condition.holds(self.tool.reads.context(self.values))
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
    judged = judge(policy, proposal)
    decision = _in_words(policy, judged)
    left = None if judged.verdict == "refuse" else _attempts_remaining(policy, proposal)
    return decision if left is None else decision.model_copy(update={"attempts_remaining": left})


def decide_read(policy: Policy, proposal: Proposal) -> PolicyDecision:
    """What the policy says about a call that changes nothing; such a call is free or refused, it never waits."""
    return _in_words(policy, judge_read(policy, proposal))


def judge(policy: Policy, proposal: Proposal) -> Judged:
    """`decide`, not in words."""
    judged = _judged(policy, proposal)
    if judged.verdict != "hold":
        return judged
    return _crowded(policy, proposal) or judged


def judge_read(policy: Policy, proposal: Proposal) -> Judged:
    """`decide_read`, not in words."""
    judged = judge(policy, proposal)
    if judged.verdict == "notify":
        return judged._replace(verdict="free")
    if judged.verdict != "hold":
        return judged
    return judged._replace(verdict="refuse", code=Code.TOOL_NOT_AVAILABLE)


def _judged(policy: Policy, proposal: Proposal) -> Judged:
    if proposal.manifest is None:
        return _held([_by_default(policy, NO_MANIFEST, "nothing is known about the tool")])
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


def _no_policy(policy: Policy, *, writes: bool) -> Judged:
    because = "the policy does not name the tool"
    if writes:
        return _held([_by_default(policy, NO_POLICY, because)])
    return _refusal(NO_POLICY, Code.TOOL_NOT_AVAILABLE, lambda: (because, Explanation()))


def _refused(case: _Case) -> Judged | None:
    for rule, applies in zip(case.tool.refusals, case.refusing, strict=True):
        if applies is None:
            case.not_evaluated(rule.name)
        elif applies:
            return _refusal(rule.name, rule.code, partial(_explained, case, rule))
    return None


def _explained(case: _Case, rule: Refusal) -> tuple[str, Explanation]:
    because = rule.because.render(case.values)
    said: dict[str, str | int] = {name: plain(case.proposal.arguments.get(name)) for name in rule.said}
    use_tool = rule.use_tool
    if rule.use_tool_when is not None and not case.advises(rule.use_tool_when):
        use_tool = None  # advice only; the refusal stands
    return because, Explanation(
        values=said | {"because": because},
        action=None if use_tool is None else "use_other_tool",
        use_tool=use_tool,
    )


def _exceeds(case: _Case) -> Judged | None:
    bound = case.proposal.bound
    if bound is None or bound.claim.amount <= bound.claim.available:
        return None
    return _refusal(EXCEEDS_AVAILABLE, bound.code, lambda: ("it is more than is left", bound.exceeded(bound.claim)))


def _broken(case: _Case) -> Judged | None:
    breaker, usage = case.tool.breaker, case.proposal.usage.get(BREAKER)
    if breaker is None:
        return None
    if usage is None:
        case.not_evaluated(BREAKER)
        return None
    if usage.used < breaker.max:
        return None
    return _refusal(
        BREAKER,
        Code.CAPABILITY_DISABLED,
        lambda: (f"{usage.used} calls of {case.tool.name} within {format_duration(breaker.window)}", Explanation()),
    )


def _crowded(policy: Policy, proposal: Proposal) -> Judged | None:
    if policy.parked is None:
        return None
    for rule, most, whose in (
        (PARKED_PER_AGENT, policy.parked.per_agent, "as many calls of this agent"),
        (PARKED_PER_TENANT, policy.parked.per_tenant, "as many calls"),
    ):
        waiting = proposal.usage.get(rule)
        if waiting is None or waiting.used >= most:
            return _refusal(rule, Code.RATE_LIMITED, partial(_too_many_wait, whose))
    return None


def _too_many_wait(whose: str) -> tuple[str, Explanation]:
    because = f"a person would have to approve this, and {whose} as may wait for a person do so already"
    repair = "Nothing was done, and it does not wait for anyone. End your turn and hand over to a person."
    return because, Explanation(values={"because": because, "repair": repair}, attempts_remaining=0)


def _attempts_remaining(policy: Policy, proposal: Proposal) -> int | None:
    """How many more calls the run may make after this one; None while there are plenty, or no end."""
    tool, usage = policy.tool(proposal.tool), proposal.usage
    left = [limit.max - usage[limit.name].used - 1 for limit in tool.per_run if limit.name in usage] if tool else []
    fewest = min(left, default=WARN_FROM + 1)
    return fewest if 0 <= fewest <= WARN_FROM else None


def _limited(case: _Case) -> Judged | None:
    used, bound = case.proposal.usage, case.proposal.bound
    amount = None if bound is None else bound.claim.amount
    for limit in case.tool.limits:
        usage = used.get(limit.name)
        takes = amount if limit.of == "amount" else 1
        if usage is None or takes is None:
            case.not_evaluated(limit.name)
        elif usage.used + takes > limit.max:
            return _refusal(limit.name, Code.RATE_LIMITED, partial(_over, limit, takes, usage))
    return None


def _over(limit: Limit, takes: int, usage: Usage) -> tuple[str, Explanation]:
    because = limit.because or f"{limit.max} {'calls' if limit.of == 'count' else 'minor units'} per {limit.per}"
    return because, _when_again(limit, takes, usage, because)


def _when_again(limit: Limit, takes: int, usage: Usage, because: str) -> Explanation:
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


def _asked(case: _Case) -> Judged | None:
    reasons: list[_Reason] = []
    for rule, applies in zip(case.tool.holds, case.holding, strict=True):
        if applies is None:
            case.not_evaluated(rule.name, rule.people, rule.proof)
        elif applies:
            reasons.append(_reason(rule))
    reasons = case.undecided + reasons
    return _held(reasons, case.values) if reasons else None


def _reason(rule: Hold) -> _Reason:
    return _Reason(
        rule.name, rule.because, rule.approvers, rule.deadline_seconds, rule.people, rule.escalates_to, rule.proof
    )


def _otherwise(case: _Case, *, critical: bool) -> Judged:
    verdict = case.tool.otherwise
    if verdict == "refuse":
        because = "the policy allows no call of the tool"
        return _refusal(OTHERWISE, Code.TOOL_NOT_AVAILABLE, lambda: (because, Explanation()))
    if verdict == "hold":
        return _held([_by_default(case.policy, OTHERWISE, "a person decides every call of the tool")])
    if critical:
        return _held([_by_default(case.policy, CRITICAL_RISK, "the tool is of critical risk")])
    return Judged(verdict, OTHERWISE)


def _by_default(policy: Policy, rule: str, because: str) -> _Reason:
    return _Reason(rule, because, policy.approvers, policy.deadline_seconds, 1, policy.escalates_to, None)


def _held(reasons: Sequence[_Reason], values: Mapping[str, object] = _NO_VALUES) -> Judged:
    return Judged("hold", reasons[0].rule, reasons=reasons, values=values)


def _refusal(rule: str, code: Code, said: Callable[[], tuple[str, Explanation]]) -> Judged:
    return Judged("refuse", rule, code, said=said)


def _in_words(policy: Policy, judged: Judged) -> PolicyDecision:
    if judged.said is not None:
        because, explanation = judged.said()
        return PolicyDecision(
            verdict=judged.verdict,
            rule=judged.rule,
            because=because,
            policy_version=policy.version,
            code=judged.code,
            explanation=explanation,
        )
    if not judged.reasons:
        return _let(judged.verdict, policy.version)
    first = judged.reasons[0]
    proofs: list[ProofLevel | None] = [reason.proof for reason in judged.reasons]
    return PolicyDecision(
        verdict=judged.verdict,
        rule=judged.rule,
        because="; ".join(_because(reason, judged.values) for reason in judged.reasons),
        policy_version=policy.version,
        rules=judged.rules,
        code=judged.code,
        explanation=None if judged.code is None else Explanation(),
        approvers=first.approvers,
        deadline_seconds=first.deadline_seconds,
        people=judged.people,
        proof=strictest(*proofs),
        escalates_to=first.escalates_to,
        execute_within_seconds=policy.execute_within_seconds,
    )


def _because(reason: _Reason, values: Mapping[str, object]) -> str:
    return reason.because if isinstance(reason.because, str) else reason.because.render(values)


@lru_cache(maxsize=64)
def _let(verdict: Verdict, version: str) -> PolicyDecision:
    """Most decisions are this one."""
    return PolicyDecision(verdict=verdict, rule=OTHERWISE, because="no rule asks for more", policy_version=version)
