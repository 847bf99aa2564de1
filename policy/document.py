"""What a policy file says. Strict and closed; names and conditions are resolved in `policy.load`."""

import re
from collections.abc import Iterable
from typing import Annotated, Literal, Self, TypeVar, get_args

from pydantic import BeforeValidator, Field, StringConstraints, ValidationInfo, model_validator

from schemas.base import Model
from schemas.codes import Code
from schemas.proofs import ProofLevel
from schemas.replies import Verdict
from schemas.subjects import Scope
from schemas.switches import parse
from schemas.tools import CapabilityClass, Group, Reversibility, ToolName

_UNIT_SECONDS = {"m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([1-9][0-9]{0,4})([mhd])")

STORED = "stored"
"""The context of pydantic in which a policy is read as it is stored."""

# What a rule may say to an agent; every other code has one cause in the service and is not a rule's to claim.
REFUSAL_CODES = (Code.NOT_REFUNDABLE, Code.INVALID_STATE, Code.TOOL_NOT_AVAILABLE, Code.UNSAFE_CHAIN)


def parse_duration(text: object) -> int:
    """Seconds of `30m`, `24h` or `7d`. Raises ValueError for anything else."""
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError("write a duration as a whole number and m, h or d, e.g. 30m, 24h or 7d")
    return int(found[1]) * _UNIT_SECONDS[found[2]]


def _duration(value: object, info: ValidationInfo) -> int:
    """What is stored says durations in seconds."""
    if info.context == STORED and isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return parse_duration(value)


def format_duration(seconds: int) -> str:
    """Text that `parse_duration` reads as `seconds`: `7d`, `24h` or `90m`; days from two on."""
    if seconds % 86_400 == 0 and seconds > 86_400:
        return f"{seconds // 86_400}d"
    return f"{seconds // 3600}h" if seconds % 3600 == 0 else f"{seconds // 60}m"


def _may_be_said(code: object) -> object:
    if code not in REFUSAL_CODES:
        raise ValueError(f"a rule may refuse with {', '.join(REFUSAL_CODES)}")
    return code


def _can_be_tripped(name: object) -> object:
    if not isinstance(name, str) or parse(name).kind not in ("tool", "class"):
        raise ValueError("a breaker turns off tool:NAME or class:NAME")
    return name


Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{1,62}$")]
PolicyName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{1,62}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\r\n]+$")]
Expression = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Duration = Annotated[int, BeforeValidator(_duration)]
RefusalCode = Annotated[Code, BeforeValidator(_may_be_said)]
SwitchName = Annotated[str, BeforeValidator(_can_be_tripped)]
Positive = Annotated[int, Field(ge=1, le=2**53 - 1)]
People = Annotated[int, Field(ge=1, le=2)]
Threshold = Annotated[int, Field(ge=-(2**53) + 1, le=2**53 - 1)]
Measure = Literal["count", "amount"]
WhenAbsent = Literal["resend", "review"]


class Total(Model):
    """A sum over earlier calls, for use in conditions as `totals.<name>`.

    Earlier calls are those of the same tool and tenant that ran, are parked or whose outcome is unknown; released ones
    do not count, nor does the call being decided. `per` picks the run's, customer's, order's or agent's of them, the
    agent's of the very same amount (`agent_amount`), those with the same arguments for the same customer (`repeat`; the
    agent's own words and the key aside), or takes all (`tool`; `tenant` takes those of the tenant's other tools in the
    policy too). `turn` takes those of the run in the same trace (W3C `traceparent`), of every tool that counts by it;
    a call in no trace is alone in its turn. `amount` adds minor units whatever their currency, which can only be
    stricter. `window` counts back from now; without one, everything counts.
    `unasked` leaves out the calls that waited for a person. `together` adds up the calls of every tool that counts the
    same together: two tools that give back the money of one order share what its total comes to.
    """

    per: Scope
    window: Duration | None = None
    of: Measure
    unasked: bool = False
    together: bool = False

    @model_validator(mode="after")
    def _not_twice(self) -> Self:
        return _not_together_twice(self)


class Limit(Model):
    """At most `max` calls (or minor units) of a scope, as a `Total` has it; a call that would go beyond is refused."""

    name: Name
    per: Scope
    window: Duration | None = None
    of: Measure = "count"
    max: Positive
    because: Text | None = None
    together: bool = False

    @model_validator(mode="after")
    def _not_twice(self) -> Self:
        return _not_together_twice(self)


_T = TypeVar("_T", Total, Limit)


def _not_together_twice(counted: _T) -> _T:
    if counted.together and counted.per in ("tenant", "turn"):
        raise ValueError(f"per {counted.per} counts the calls of every tool anyhow: leave together out")
    return counted


class Breaker(Model):
    """After `max` calls of the tool in `window`, over all runs, the next one turns the switch `trips` off. It stays off
    until an operator turns it on; from then on, only later calls count."""

    window: Duration
    max: Positive
    trips: SwitchName


class Parked(Model):
    """How many calls may wait for a person at once, whichever tools they are of; one more is refused."""

    per_agent: Positive
    per_tenant: Positive


class RuleText(Model):
    """One rule: refuse with a code, or hold for a group of approvers, when the condition (CEL) is true."""

    name: Name
    refuse: RefusalCode | None = None
    hold: Group | None = None
    when: Expression
    because: Text
    deadline: Duration | None = None
    people: People = 1
    """How many different people have to approve."""
    proof: ProofLevel | None = None
    """What each of them has to prove beside their session."""
    escalates_to: Group | None = None
    """A group that may decide as well once half the time has gone."""
    use_tool: ToolName | None = None
    use_tool_when: Expression | None = None

    @model_validator(mode="after")
    def _one_outcome(self) -> Self:
        if (self.refuse is None) == (self.hold is None):
            raise ValueError("a rule has either refuse or hold")
        asked = (self.deadline, self.people, self.proof, self.escalates_to)
        if self.refuse is not None and asked != (None, 1, None, None):
            raise ValueError("deadline, people, proof and escalates_to belong to a hold rule")
        if self.hold is not None and self.hold == self.escalates_to:
            raise ValueError("escalates_to is the group that is asked anyhow")
        if self.hold is not None and (self.use_tool is not None or self.use_tool_when is not None):
            raise ValueError("use_tool belongs to a refuse rule")
        if self.use_tool is None and self.use_tool_when is not None:
            raise ValueError("use_tool_when needs use_tool")
        return self


class ToolText(Model):
    """All that is decided about one tool. `without` names rules of its kinds (`across`) that do not hold for it."""

    without: tuple[Name, ...] = ()
    thresholds: dict[Name, Threshold] = Field(default_factory=dict[str, int])
    totals: dict[Name, Total] = Field(default_factory=dict[str, Total])
    limits: tuple[Limit, ...] = ()
    breaker: Breaker | None = None
    rules: tuple[RuleText, ...] = ()
    otherwise: Verdict
    when_absent: WhenAbsent = "review"
    """What to do about an effect whose answer was lost and that its system does not show: send it again under the same
    key, for as long as the system knows the key, or ask a person."""


class Changes(Model):
    """Who may change the policy while it is in force: how many different people have to agree, each with this role."""

    people: People = 1
    group: Group = "operator"


class AcrossText(Model):
    """What holds for every tool of a kind, before what is said of the tool itself. Its conditions may only read what
    all of those tools have; `run` is what every tool has."""

    thresholds: dict[Name, Threshold] = Field(default_factory=dict[str, int])
    totals: dict[Name, Total] = Field(default_factory=dict[str, Total])
    rules: Annotated[tuple[RuleText, ...], Field(min_length=1)]


def kinds_of(classes: Iterable[CapabilityClass], reversibility: Reversibility) -> tuple[str, ...]:
    """The kinds that a tool is of: what `PolicyDocument.across` may name."""
    return (*(f"class:{each}" for each in classes), f"reversibility:{reversibility}")


KINDS = frozenset(
    each for reversibility in get_args(Reversibility) for each in kinds_of(get_args(CapabilityClass), reversibility)
)


def _is_kind(name: object) -> object:
    if name not in KINDS:
        raise ValueError(f"write class:NAME or reversibility:NAME; there are {', '.join(sorted(KINDS))}")
    return name


KindName = Annotated[str, BeforeValidator(_is_kind)]


class Defaults(Model):
    """Who is asked, and for how long, where no rule says so: an unknown tool, a condition that cannot be evaluated."""

    approvers: Group
    deadline: Duration
    escalates_to: Group | None = None
    execute_within: Duration = 3600
    """How long an approval lets a call run: one that could not be executed until then is asked about again."""
    parked: Parked | None = None
    changes: Changes = Changes()


class PolicyDocument(Model):
    """A whole policy."""

    name: PolicyName
    defaults: Defaults
    across: dict[KindName, AcrossText] = Field(default_factory=dict[str, AcrossText])
    tools: dict[ToolName, ToolText]
