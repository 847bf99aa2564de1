"""A policy as it is loaded, and what is asked of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from pydantic import JsonValue

from policy.conditions import Condition, Reads
from policy.document import Breaker, Limit, Measure, Parked, PolicyDocument, WhenAbsent
from policy.plain import Whens
from policy.problems import Problem
from policy.wording import Wording
from schemas.calls import RunFacts
from schemas.codes import Code
from schemas.decisions import Claim
from schemas.proofs import ProofLevel
from schemas.replies import Explanation, Verdict
from schemas.subjects import Basis, Scope
from schemas.tools import Manifest

# Names in `Proposal.usage` beside those of limits.
BREAKER = "breaker"
PARKED_PER_AGENT = "parked_per_agent"
PARKED_PER_TENANT = "parked_per_tenant"


NOTHING_DONE = RunFacts()


@dataclass(frozen=True, slots=True)
class Counter:
    """Something the ledger counts for a decision, over earlier calls; the meaning of each field is `document.Total`'s.

    `window_seconds` is None where everything counts. Names are unique within a tool. `max` is what a limit allows.
    `trips`: the switch that it turns off; what came before it last did so counts no longer.
    """

    name: str
    per: Scope
    window_seconds: int | None
    of: Measure
    unasked: bool = False
    max: int | None = None
    trips: str | None = None
    together: bool = False

    @property
    def basis(self) -> Basis:
        return Basis(self.per, self.unasked, self.together)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule that refuses."""

    name: str
    code: Code
    when: Condition
    because: Wording
    said: tuple[str, ...]
    """Arguments that the code's sentence names beside `because`."""
    use_tool: str | None
    use_tool_when: Condition | None


@dataclass(frozen=True, slots=True)
class Hold:
    """A rule that asks a person of the group `approvers`."""

    name: str
    approvers: str
    deadline_seconds: int
    when: Condition
    because: Wording
    people: int = 1
    escalates_to: str | None = None
    proof: ProofLevel | None = None


@dataclass(frozen=True)
class PolicyTool:
    """What is decided about one tool."""

    name: str
    thresholds: Mapping[str, int]
    totals: tuple[Counter, ...]
    limits: tuple[Limit, ...]
    breaker: Breaker | None
    refusals: tuple[Refusal, ...]
    holds: tuple[Hold, ...]
    otherwise: Verdict
    when_absent: WhenAbsent
    reads: Reads
    whens: Whens
    """The conditions of `refusals`, then those of `holds`."""
    counted_for_tenant: frozenset[Measure] = frozenset()
    """What its calls are counted by over all tools of the tenant, for itself or for other tools of the policy."""

    @cached_property
    def per_run(self) -> tuple[Limit, ...]:
        """The limits on how many calls a run makes."""
        return tuple(limit for limit in self.limits if (limit.per, limit.of) == ("run", "count"))

    def subjects_needed(self) -> tuple[Counter, ...]:
        """Every counter that a decision needs: the values of `Proposal.totals` and `Proposal.usage` by these names."""
        limits = [
            Counter(each.name, each.per, each.window, each.of, max=each.max, together=each.together)
            for each in self.limits
        ]
        breaker = self.breaker
        if breaker is not None:
            limits.append(Counter(BREAKER, "tool", breaker.window, "count", max=breaker.max, trips=breaker.trips))
        return self.totals + tuple(limits)


@dataclass(frozen=True, slots=True)
class Policy:
    """A loaded policy. `version` is `{name}@{12 hex digits of its content's SHA-256}`."""

    name: str
    version: str
    approvers: str
    deadline_seconds: int
    escalates_to: str | None
    execute_within_seconds: int
    parked: Parked | None
    tools: Mapping[str, PolicyTool]
    document: PolicyDocument
    warnings: tuple[Problem, ...] = ()
    """What is worth a look, though nothing is wrong."""

    def tool(self, name: str) -> PolicyTool | None:
        """None for a tool the policy does not name: `decide` then fails closed, and nothing needs to be counted."""
        return self.tools.get(name)


class Usage(NamedTuple):
    """How much of a limit earlier calls have used; `retry_after_seconds` until enough of them have left the window."""

    used: int
    retry_after_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """What the call takes from something finite, and how to refuse and explain that it is more than is left."""

    claim: Claim
    exceeded: Callable[[Claim], Explanation]
    code: Code = Code.REFUND_EXCEEDS_PAID


@dataclass(frozen=True, slots=True)
class Proposal:
    """A call to be decided: validated arguments and facts as plain JSON, what its run did, and what was counted for it.

    `totals` and `usage` hold one entry for each of `PolicyTool.subjects_needed()`, this call itself not counted, and
    `usage` also how many calls wait for a person: PARKED_PER_AGENT and PARKED_PER_TENANT.
    """

    tool: str
    manifest: Manifest | None
    arguments: Mapping[str, JsonValue]
    facts: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    run: RunFacts = NOTHING_DONE
    totals: Mapping[str, int] = field(default_factory=dict[str, int])
    usage: Mapping[str, Usage] = field(default_factory=dict[str, Usage])
    bound: Bound | None = None
