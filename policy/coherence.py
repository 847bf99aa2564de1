"""What in a tool's rules contradicts itself: rules and limits that can never decide, and rules that meet, of which only
the first one has its way.

A problem is certain. What cannot be told is not said: a condition that reads what may be missing, or that is more than
comparisons of whole numbers, texts and flags, is taken to be able to go either way, and to have no answer at times.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from policy.conditions import Condition, ConditionError, Reads
from policy.document import Limit, Scope, ToolText, format_duration
from policy.formulas import AtMost, Formula, Terms, is_opaque, negated, read_formula
from policy.model import Hold, PolicyTool, Refusal
from policy.problems import Problem
from policy.solving import Example, TooManyCases, can_hold, examples
from policy.values import nested
from policy.vocabulary import SAMPLES, Domain, Kind, Vocabulary
from schemas.proofs import is_stricter

# Every call that counts against the one counts against those beside it too.
_WITHIN: dict[Scope, tuple[Scope, ...]] = {
    "run": ("agent", "tool", "tenant"),
    "turn": (),
    "agent_amount": ("agent", "tool", "tenant"),
    "agent": ("tool", "tenant"),
    "repeat": ("customer", "tool", "tenant"),
    "customer": ("tool", "tenant"),
    "order": ("tool", "tenant"),
    "tool": ("tenant",),
    "tenant": (),
}
_EXAMPLES_TRIED = 20


@dataclass(frozen=True, slots=True)
class Findings:
    """`problems` keep the policy from being used; `warnings` are worth a look."""

    problems: list[Problem] = field(default_factory=list[Problem])
    warnings: list[Problem] = field(default_factory=list[Problem])


def findings_of(tool: PolicyTool, text: ToolText, file: str, vocabulary: Vocabulary) -> Findings:
    """What contradicts itself in a tool's rules, all of whose names are known."""
    return _Examination(tool, text, file, vocabulary).findings()


R = TypeVar("R", Refusal, Hold)


@dataclass(frozen=True)
class _Rule(Generic[R]):
    """A rule with what its condition says."""

    rule: R
    formula: Formula
    is_total: bool
    """Whether its condition always has an answer."""

    @property
    def name(self) -> str:
        return self.rule.name


_AnyRule = _Rule[Any]


class _Examination:
    def __init__(self, tool: PolicyTool, text: ToolText, file: str, vocabulary: Vocabulary) -> None:
        self._tool = tool
        self._text = text
        self._file = file
        self._domains = {**vocabulary.domains, **{f"totals.{each}": Domain(least=0) for each in text.totals}}
        self._numbers = {f"thresholds.{name}": value for name, value in text.thresholds.items()}
        self._kinds: dict[str, Kind] = {
            **vocabulary.names,
            **dict.fromkeys((f"totals.{each}" for each in text.totals), "integer"),
            **dict.fromkeys(self._numbers, "integer"),
        }
        self._found = Findings()
        self._refusals = [self._rule(each) for each in tool.refusals]
        self._holds = [self._rule(each) for each in tool.holds]

    def findings(self) -> Findings:
        self._limits()
        dead = self._unreachable()
        refusals = [each for each in self._refusals if each.name not in dead]
        holds = [each for each in self._holds if each.name not in dead]
        for at, rule in enumerate(refusals):
            for first in refusals[:at]:
                self._two_codes(first, rule)
        for at, rule in enumerate(holds):
            for other_at, other in enumerate(holds):
                if other_at > at and self._out_of_order(other, rule) is None:
                    continue
                if other is not rule and self._covers(other, rule) and self._beside(other, rule, first=other_at < at):
                    break
            else:
                for first in holds[:at]:
                    self._two_groups(first, rule)
        self._otherwise([*refusals, *holds])
        return self._found

    def _rule(self, rule: R) -> _Rule[R]:
        formula = read_formula(rule.when.source, self._kinds, self._numbers)
        optional = any(self._domains.get(".".join(each.path), Domain()).optional for each in rule.when.reads)
        return _Rule(rule, formula, not optional and not is_opaque(formula))

    def _problem(self, where: str, what: str) -> None:
        self._found.problems.append(Problem(self._file, f"{self._tool.name} / {where}", what))

    def _warning(self, where: str, what: str) -> None:
        self._found.warnings.append(Problem(self._file, f"{self._tool.name} / {where}", what))

    def _never(self, *formulas: Formula) -> bool:
        """Whether it is certain that these never hold together."""
        try:
            return not can_hold(formulas, self._domains)
        except TooManyCases:
            return False

    def _covers(self, one: _AnyRule, other: _AnyRule) -> bool:
        """Whether it is certain that the first rule applies wherever the second does."""
        if one.rule.when.source == other.rule.when.source:
            return True
        return one.is_total and self._never(other.formula, negated(one.formula))

    def _unreachable(self) -> set[str]:
        dead: set[str] = set()
        for at, rule in enumerate([*self._refusals, *self._holds]):
            before = [each for each in self._refusals[:at] if each.name not in dead]
            what = self._why_never(rule, before)
            if what is not None:
                dead.add(rule.name)
                self._problem(f"{rule.name} / when", what)
        return dead

    def _why_never(self, rule: _AnyRule, before: Sequence[_AnyRule]) -> str | None:
        if self._never(rule.formula):
            return "can never be true; put the condition right, or leave the rule out"
        for other in before:
            if self._covers(other, rule):
                remedy = f"put it before {other.name}" if isinstance(rule.rule, Refusal) else f"narrow {other.name}"
                return f"never decides: wherever it is true, {other.name} refuses; {remedy}, or leave the rule out"
        total = [each for each in before if each.is_total]
        if len(total) > 1 and self._never(rule.formula, *(negated(each.formula) for each in total)):
            names = ", ".join(each.name for each in total)
            return f"never decides: wherever it is true, one of {names} refuses; narrow them, or leave the rule out"
        return None

    def _beside(self, other: _Rule[Hold], rule: _Rule[Hold], *, first: bool) -> bool:
        """What is to be said of a hold rule, wherever which another one holds too; whether anything is."""
        one, two = other.rule, rule.rule
        adds = two.people > one.people or is_stricter(two.proof, one.proof)
        if first and one.approvers != two.approvers:
            what = f"{two.approvers} is never asked: wherever the rule holds, {one.name} does too and stands first, so "
            what += f"{one.approvers} is; put it before {one.name}"
            (self._warning if adds else self._problem)(f"{two.name} / hold", what)
            return True
        if adds or (not first and _whom(one) != _whom(two)):
            return False
        if (numbers := self._out_of_order(other, rule)) is not None:
            below, above = numbers
            what = f"is {self._numbers[f'thresholds.{below}']}, and thresholds.{above} is"
            what += f" {self._numbers[f'thresholds.{above}']}, so that {two.name} asks for nothing wherever it holds"
            self._problem(f"thresholds / {below}", f"{what} that {one.name} does not ask for; exchange the two")
            return True
        if first:
            what = f"never decides: wherever it holds, {one.name} does too, stands first and asks for as much"
            self._warning(two.name, f"{what}; leave it out, or let it ask for more")
        return first

    def _out_of_order(self, other: _AnyRule, rule: _AnyRule) -> tuple[str, str] | None:
        """The thresholds of two rules that compare the same with them, where they differ: the other rule's first."""
        one, two = (self._compared(each.rule.when) for each in (other, rule))
        if one is None or two is None or one[1:] != two[1:]:
            return None
        apart = self._numbers[f"thresholds.{one[0]}"] != self._numbers[f"thresholds.{two[0]}"]
        return (one[0], two[0]) if apart else None

    def _compared(self, condition: Condition) -> tuple[str, Terms, int] | None:
        """A condition that compares something with one threshold: its name, and the rest."""
        formula = read_formula(condition.source, self._kinds, {})
        if not isinstance(formula, AtMost):
            return None
        names = [name for name, _ in formula.terms if name.startswith("thresholds.")]
        if len(names) != 1:
            return None
        rest = tuple((name, factor) for name, factor in formula.terms if name != names[0])
        return names[0].removeprefix("thresholds."), rest, formula.most

    def _two_codes(self, first: _Rule[Refusal], rule: _Rule[Refusal]) -> None:
        one, two = first.rule, rule.rule
        if one.code == two.code or (example := self._meeting(first, rule)) is None:
            return
        what = f"applies where {one.name} does too{example}: {one.name} stands first, so the agent is told"
        self._warning(two.name, f"{what} {one.code} and not {two.code}")

    def _two_groups(self, first: _Rule[Hold], rule: _Rule[Hold]) -> None:
        one, two = first.rule, rule.rule
        if _whom(one) == _whom(two) or (example := self._meeting(first, rule)) is None:
            return
        what = f"holds where {one.name} does too{example}: {one.name} stands first, so the call waits"
        self._warning(two.name, f"{what} for {_said(one)} and not for {_said(two)}")

    def _otherwise(self, rules: Sequence[_AnyRule]) -> None:
        if not rules or (self._text.otherwise == "refuse" and not self._holds):
            return
        total = [each for each in rules if each.is_total]
        if not total or not self._never(*(negated(each.formula) for each in total)):
            return
        which = f"one of {', '.join(each.name for each in total)}" if len(total) > 1 else total[0].name
        self._warning("otherwise", f"no call gets as far as {self._text.otherwise}: {which} applies to each")

    def _meeting(self, one: _AnyRule, two: _AnyRule) -> str | None:
        """An example of a call that both rules apply to and that nothing before refuses; None where none is found. It
        was tried on the conditions themselves."""
        barred = [each for each in self._refusals if each.rule not in (one.rule, two.rule)]
        formulas = (one.formula, two.formula, *(negated(each.formula) for each in barred))
        try:
            for tried, example in enumerate(examples(formulas, self._domains)):
                if tried == _EXAMPLES_TRIED:
                    return None
                if self._apply(example, [one, two], barred):
                    return self._shown(example, one, two)
        except TooManyCases:
            pass
        return None

    def _apply(self, example: Example, rules: Sequence[_AnyRule], barred: Sequence[_AnyRule]) -> bool:
        values = nested({**self._sample, **self._numbers, **example})
        context = Reads([each.rule.when for each in (*rules, *barred)]).context(values)
        try:
            applies = all(each.rule.when.holds(context) for each in rules)
            return applies and not any(each.rule.when.holds(context) for each in barred)
        except ConditionError:
            return False

    @cached_property
    def _sample(self) -> dict[str, object]:
        sample: dict[str, object] = {}
        for name, kind in self._kinds.items():
            domain = self._domains.get(name, Domain())
            value = domain.choices[0] if domain.choices else domain.least if kind == "integer" else None
            sample[name] = {} if kind == "object" else SAMPLES[kind][0] if value is None else value
        return sample

    def _shown(self, example: Example, one: _AnyRule, two: _AnyRule) -> str:
        read = sorted({".".join(each.path) for rule in (one, two) for each in rule.rule.when.reads} & set(example))
        return f", e.g. where {' and '.join(f'{name} is {_plain(example[name])}' for name in read)}" if read else ""

    def _limits(self) -> None:
        limits = self._tool.limits
        for at, limit in enumerate(limits):
            for other_at, other in enumerate(limits):
                alike = _reached_first(limit, other)
                if other is not limit and _reached_first(other, limit) and (not alike or other_at < at):
                    what = f"never refuses what {other.name} does not refuse too: {_extent(other)} is no more than"
                    self._problem(limit.name, f"{what} {_extent(limit)}; lower it, or leave it out")
                    break


def _reached_first(other: Limit, limit: Limit) -> bool:
    """Whether the other limit is exceeded wherever this one is: it counts the same and more, up to no more."""
    wider = other.per == limit.per or other.per in _WITHIN[limit.per]
    of_more = other.together or not limit.together or other.per == "tenant"
    longer = other.window is None or (limit.window is not None and other.window >= limit.window)
    return wider and of_more and longer and other.of == limit.of and other.max <= limit.max


def _extent(limit: Limit) -> str:
    what = "calls" if limit.of == "count" else "minor units"
    window = "" if limit.window is None else f" in {format_duration(limit.window)}"
    return f"{limit.max} {what} per {limit.per}{window}{' together' if limit.together else ''}"


def _whom(hold: Hold) -> tuple[str, int, str | None]:
    """What the first rule that holds says alone; people and proof are the most that any of them asks for."""
    return hold.approvers, hold.deadline_seconds, hold.escalates_to


def _said(hold: Hold) -> str:
    then = f", then {hold.escalates_to} too" if hold.escalates_to else ""
    return f"{hold.approvers} ({format_duration(hold.deadline_seconds)}{then})"


def _plain(value: int | str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
