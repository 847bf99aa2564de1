"""Turns what a policy says of a tool into what is evaluated, and finds every name in it that means nothing."""

from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from string import Formatter

from policy.conditions import Condition, ConditionError, Reads, compile_condition
from policy.decide import RESERVED_NAMES
from policy.document import Defaults, Limit, RuleText, ToolText
from policy.formulas import read_formula
from policy.model import Counter, Hold, PolicyTool, Refusal
from policy.plain import Whens
from policy.problems import Problem
from policy.values import Path, nested
from policy.vocabulary import RUN, SAMPLES, SCALARS, Kind, Vocabulary
from policy.wording import Wording, parse_wording
from schemas.codes import REGISTRY, Code
from schemas.subjects import Scope

_ROOTS = ("args", "facts", "run", "totals", "thresholds")


def resolve(
    name: str,
    text: ToolText,
    defaults: Defaults,
    file: str,
    vocabulary: Vocabulary | None,
    tools: Iterable[str] | None,
) -> tuple[PolicyTool, list[Problem]]:
    """The tool's policy, and what is wrong with it; a policy with a problem is not to be used.

    Without a vocabulary the names under `args` and `facts` are taken as they are, and without `tools` those of tools.
    """
    resolver = _Resolver(name, text, defaults, file, vocabulary, tools)
    return resolver.tool(), resolver.problems


class _Resolver:
    def __init__(
        self,
        name: str,
        text: ToolText,
        defaults: Defaults,
        file: str,
        vocabulary: Vocabulary | None,
        tools: Iterable[str] | None,
    ) -> None:
        self.problems: list[Problem] = []
        self._name = name
        self._text = text
        self._defaults = defaults
        self._file = file
        self._vocabulary = vocabulary
        self._tools = None if tools is None else frozenset(tools)
        self._names: dict[str, Kind] = dict(vocabulary.names if vocabulary else RUN)
        self._names |= {f"totals.{total}": "integer" for total in text.totals}
        self._names |= {f"thresholds.{threshold}": "integer" for threshold in text.thresholds}
        self._constants = {("thresholds", threshold): value for threshold, value in text.thresholds.items()}
        self._used: set[Path] = set()
        self._conditions: list[Condition] = []

    def tool(self) -> PolicyTool:
        text = self._text
        self._unique()
        self._answerable()
        for name, total in text.totals.items():
            self._scoped(total.per, ("totals", name))
        found = [self._refusal(rule, rule.refuse) for rule in text.rules if rule.refuse is not None]
        refusals = tuple(rule for rule in found if rule is not None)
        asking = [self._hold(rule, rule.hold) for rule in text.rules if rule.hold is not None]
        holds = tuple(rule for rule in asking if rule is not None)
        limits = tuple(self._limit(limit) for limit in text.limits)
        self._tripped()
        self._unused()
        return PolicyTool(
            name=self._name,
            thresholds=text.thresholds,
            totals=tuple(
                Counter(name, total.per, total.window, total.of, total.unasked, together=total.together)
                for name, total in text.totals.items()
            ),
            limits=limits,
            breaker=text.breaker,
            refusals=refusals,
            holds=holds,
            otherwise=text.otherwise,
            when_absent=text.when_absent,
            reads=Reads(self._conditions),
            whens=self._whens([rule.when for rule in (*refusals, *holds)]),
        )

    def _whens(self, conditions: Sequence[Condition]) -> Whens:
        numbers = {".".join(path): value for path, value in self._constants.items()}
        return Whens(conditions, [read_formula(each.source, self._names, numbers) for each in conditions])

    def _problem(self, where: Iterable[str], what: str) -> None:
        self.problems.append(Problem(self._file, " / ".join((self._name, *where)), what))

    def _unique(self) -> None:
        """Rules and limits share the names that decisions are recorded under, totals and limits those of counters."""
        rules = [rule.name for rule in self._text.rules]
        limits = [limit.name for limit in self._text.limits]
        deciding = Tally(rules + limits)
        counting = Tally(limits + list(self._text.totals))
        for name in dict.fromkeys((*rules, *limits, *self._text.totals)):
            if name in RESERVED_NAMES:
                self._problem((name,), "the name is taken by a decision that no rule makes; choose another")
            elif deciding[name] > 1:
                self._problem((name,), "two rules or limits have this name; give one of them another")
            elif counting[name] > 1:
                self._problem((name,), "a total and a limit have this name; give one of them another")

    def _answerable(self) -> None:
        if self._vocabulary is None or self._vocabulary.writes:
            return
        if self._text.totals or self._text.limits or self._text.breaker:
            self._problem((), "a tool that only reads is not counted: it has neither totals, limits nor a breaker")
        if self._text.otherwise == "hold" or any(rule.hold is not None for rule in self._text.rules):
            self._problem((), "a tool that only reads is answered at once: nothing can hold it")

    def _unused(self) -> None:
        """A number that nothing reads looks as if changing it did something."""
        for kind, names in (("thresholds", self._text.thresholds), ("totals", self._text.totals)):
            for name in names:
                if (kind, name) not in self._used:
                    self._problem((kind, name), "no rule uses it; leave it out, or name it in a rule")

    def _refusal(self, rule: RuleText, code: Code) -> Refusal | None:
        said = tuple(
            field for _, field, _, _ in Formatter().parse(REGISTRY[code].message) if field and field != "because"
        )
        for field in said:
            kind = self._names.get(f"args.{field}")
            if self._vocabulary is not None and kind not in SCALARS:
                self._problem((rule.name, "refuse"), f"{code} speaks of {field}, which is no argument of the tool")
        if rule.use_tool is not None and self._tools is not None and rule.use_tool not in self._tools:
            self._problem(
                (rule.name, "use_tool"), f"there is no tool {rule.use_tool}; there is {', '.join(sorted(self._tools))}"
            )
        when = self._condition(rule.when, rule.name, "when")
        because = self._wording(rule.because, rule.name)
        advice = None
        if rule.use_tool_when is not None:
            advice = self._condition(rule.use_tool_when, rule.name, "use_tool_when")
        if when is None or because is None:
            return None
        return Refusal(rule.name, code, when, because, said, rule.use_tool, advice)

    def _hold(self, rule: RuleText, group: str) -> Hold | None:
        when = self._condition(rule.when, rule.name, "when")
        because = self._wording(rule.because, rule.name)
        if when is None or because is None:
            return None
        deadline = rule.deadline or self._defaults.deadline
        above = rule.escalates_to or (None if self._defaults.escalates_to == group else self._defaults.escalates_to)
        return Hold(rule.name, group, deadline, when, because, rule.people, above, rule.proof)

    def _scoped(self, per: Scope, where: Iterable[str]) -> None:
        if per == "order" and self._vocabulary is not None and "args.order_id" not in self._names:
            self._problem((*where, "per"), "the tool has no argument order_id to count by")

    def _limit(self, limit: Limit) -> Limit:
        self._scoped(limit.per, (limit.name,))
        if limit.because is None:
            return limit
        because = limit.because.replace("{max}", str(limit.max))
        if "{" in because or "}" in because:
            self._problem((limit.name, "because"), "the one name a limit can say is {max}")
        return limit.model_copy(update={"because": because})

    def _tripped(self) -> None:
        """A switch that does not cover the tool would leave it running."""
        breaker = self._text.breaker
        if breaker is None or self._vocabulary is None:
            return
        covering = [f"tool:{self._name}", *(f"class:{each}" for each in self._vocabulary.classes)]
        if breaker.trips not in covering:
            self._problem(("breaker", "trips"), f"does not cover the tool; there is {', '.join(covering)}")

    def _condition(self, source: str, rule: str, field: str) -> Condition | None:
        where = (rule, field)
        try:
            condition = compile_condition(source, self._constants)
        except ConditionError as error:
            self._problem(where, f"is not a CEL expression: {error}")
            return None
        before = len(self.problems)
        for path in sorted({name.path for name in condition.reads}):
            self._known(path, where)
        self._conditions.append(condition)
        if self._vocabulary is not None and len(self.problems) == before:
            self._try(condition, where)
        return condition

    def _known(self, path: Path, where: Iterable[str]) -> None:
        self._used.add(path)
        name = ".".join(path)
        if path[0] not in _ROOTS:
            self._problem(where, f"{name} is not known; names begin with {', '.join(_ROOTS)}")
        elif len(path) == 1:
            self._problem(where, f"{name} must be followed by a name, e.g. {name}.{_example(name, self._names)}")
        elif (self._vocabulary is not None or path[0] in ("run", "totals", "thresholds")) and name not in self._names:
            self._problem(where, f"{name} is not known; there is {_list(path[0], self._names)}")

    def _try(self, condition: Condition, where: Iterable[str]) -> None:
        """Finds unknown functions, mixed types and answers that are not true or false before a call does."""
        for choice in (0, 1):
            problem = condition.misuse(Reads([condition]).context(self._sample(choice)))
            if problem is not None:
                self._problem(where, problem)
                return

    def _sample(self, choice: int) -> dict[str, object]:
        """A value for each known name; objects hold those below them."""
        return nested({name: {} if kind == "object" else SAMPLES[kind][choice] for name, kind in self._names.items()})

    def _wording(self, source: str, rule: str) -> Wording | None:
        where = (rule, "because")
        try:
            wording = parse_wording(source)
        except ValueError as error:
            self._problem(where, str(error))
            return None
        for field in wording.fields:
            before = len(self.problems)
            self._known(field.path, where)
            if len(self.problems) == before and self._vocabulary is not None:
                self._sayable(field.path, field.money, where, self._vocabulary)
        return wording

    def _sayable(self, path: Path, money: bool, where: Iterable[str], vocabulary: Vocabulary) -> None:
        name = ".".join(path)
        kind = self._names[name]
        if path[0] == "args" and path[1] in vocabulary.untrusted:
            self._problem(
                where,
                f"{name} is written by the agent or shown to nobody, and cannot be repeated in our words",
            )
        elif kind not in SCALARS:
            self._problem(where, f"{name} is not one value")
        elif money and (kind != "integer" or "args.currency" not in self._names):
            self._problem(where, f"{name} is no amount of minor units, or the tool has no argument currency")


def _list(root: str, names: Mapping[str, Kind]) -> str:
    known = sorted(name for name, kind in names.items() if name.startswith(f"{root}.") and kind != "object")
    return ", ".join(known) if known else f"nothing under {root}"


def _example(root: str, names: Mapping[str, Kind]) -> str:
    known = sorted(name for name in names if name.startswith(f"{root}."))
    return known[0].removeprefix(f"{root}.") if known else "name"
