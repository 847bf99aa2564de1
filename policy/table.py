"""A policy as a table of decisions, and what is different between two of them. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from policy.document import AcrossText, Breaker, Defaults, Limit, PolicyDocument, RuleText, ToolText, format_duration
from schemas.codes import Code


class Row(NamedTuple):
    """One decision of a tool, or of every tool where `tool` is empty: by which rule, what, when and why."""

    tool: str
    rule: str
    decision: str
    when: str = ""
    because: str = ""


class Difference(NamedTuple):
    """A row that is new (`before` is None), gone (`after` is None), or another."""

    before: Row | None
    after: Row | None

    @property
    def row(self) -> Row:
        found = self.after or self.before
        if found is None:
            raise LookupError("a difference is of something")
        return found


def decisions_of(name: str, tool: ToolText, defaults: Defaults) -> Iterator[Row]:
    """In the order of evaluation."""
    for rule in tool.rules:
        if rule.refuse is not None:
            yield _refusal(name, rule)
    if tool.breaker is not None:
        yield _breaker(name, tool.breaker)
    yield from (_limit(name, limit) for limit in tool.limits)
    for rule in tool.rules:
        if rule.hold is not None:
            yield _hold(name, rule, defaults)
    yield Row(name, "otherwise", tool.otherwise)


def across(kind: str, text: AcrossText, defaults: Defaults) -> Iterator[Row]:
    """What holds for every tool of a kind, before what is said of the tool itself."""
    for rule in text.rules:
        yield _refusal(kind, rule) if rule.refuse is not None else _hold(kind, rule, defaults)


def numbers_of(name: str, tool: ToolText | AcrossText) -> Iterator[Row]:
    """What conditions of the tool read of the policy itself."""
    for threshold, value in tool.thresholds.items():
        yield Row(name, f"thresholds.{threshold}", str(value))
    for total_name, total in tool.totals.items():
        window = "so far" if total.window is None else f"of the last {format_duration(total.window)}"
        unasked = ", without those that waited for a person" if total.unasked else ""
        together = ", together with the other tools that count so" if total.together else ""
        yield Row(name, f"totals.{total_name}", f"{total.of} per {total.per} {window}{unasked}{together}")


def for_all(defaults: Defaults) -> Iterator[Row]:
    """What holds whatever the tool."""
    above = f", from half of that on for {defaults.escalates_to} too" if defaults.escalates_to else ""
    asked = f"hold for {defaults.approvers}, {format_duration(defaults.deadline)}{above}"
    yield Row("", "what cannot be decided", asked)
    yield Row("", "an approval lets a call run", f"for {format_duration(defaults.execute_within)}")
    if defaults.parked is not None:
        most = f"at most {defaults.parked.per_agent} of an agent, {defaults.parked.per_tenant} in all"
        yield Row("", "calls that wait for a person", most)
    people = "one person" if defaults.changes.people == 1 else f"{defaults.changes.people} people"
    yield Row("", "a change of the policy", f"takes {people} of {defaults.changes.group}")


def differences(before: PolicyDocument | None, after: PolicyDocument) -> list[Difference]:
    """Row by row, in the order of the later policy and then of the earlier one; what moved among its like is no
    difference."""
    old, new = ({} if each is None else {row[:2]: row for row in _rows(each)} for each in (before, after))
    changed = [Difference(old.get(key), row) for key, row in new.items() if old.get(key) != row]
    gone = [Difference(row, None) for key, row in old.items() if key not in new]
    return [*changed, *gone]


def _rows(document: PolicyDocument) -> Iterator[Row]:
    yield from for_all(document.defaults)
    for kind, text in document.across.items():
        yield from across(kind, text, document.defaults)
        yield from numbers_of(kind, text)
    for name, tool in document.tools.items():
        if tool.without:
            yield Row(name, "rules across its kinds that do not hold", ", ".join(tool.without))
        yield from decisions_of(name, tool, document.defaults)
        yield from numbers_of(name, tool)
        yield Row(name, "an effect that is not there", "send again" if tool.when_absent == "resend" else "ask a person")


def _refusal(tool: str, rule: RuleText) -> Row:
    advice = "" if rule.use_tool is None else f"; use {rule.use_tool}"
    if rule.use_tool_when is not None:
        advice += f" when {rule.use_tool_when}"
    return Row(tool, rule.name, f"refuse {rule.refuse}", rule.when, rule.because + advice)


def _breaker(tool: str, breaker: Breaker) -> Row:
    when = f"more than {breaker.max} calls in {format_duration(breaker.window)}"
    decision = f"turn off {breaker.trips}, refuse {Code.CAPABILITY_DISABLED}"
    return Row(tool, "breaker", decision, when, "until an operator turns it on")


def _limit(tool: str, limit: Limit) -> Row:
    what = "calls" if limit.of == "count" else "minor units"
    window = "" if limit.window is None else f" in {format_duration(limit.window)}"
    together = ", over all tools that count so" if limit.together else ""
    when = f"more than {limit.max} {what} per {limit.per}{window}{together}"
    return Row(tool, limit.name, f"refuse {Code.RATE_LIMITED}", when, limit.because or "")


def _hold(tool: str, rule: RuleText, defaults: Defaults) -> Row:
    deadline = format_duration(rule.deadline or defaults.deadline)
    people = "" if rule.people == 1 else f"{rule.people} people of "
    proof = {None: "", "reauthenticated": " who prove again who they are", "passkey": " who sign it with a passkey"}[
        rule.proof
    ]
    above = rule.escalates_to or defaults.escalates_to
    then = "" if above in (None, rule.hold) else f", from half of that on for {above} too"
    return Row(tool, rule.name, f"hold for {people}{rule.hold}{proof}, {deadline}{then}", rule.when, rule.because)
