"""What a candidate counts for recorded calls, where it would have let others run than those that did. Pure.

A counter is based on what was recorded where the policy of then counted the same by the same name: earlier calls that
would have taken something else are then added or taken off. Any other is counted anew, from the calls as they come.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from policy.model import PARKED_PER_AGENT, PARKED_PER_TENANT, Counter, Policy, Usage
from policy.sliding import Book, Key, Use, Window, change, release
from schemas.recorded import Decided, RecordedCall
from schemas.subjects import ALL_TOOLS, TENANT, Countable, Scope, counted_for, subject_of

Counts = Mapping[str, Mapping[str, Counter]]
"""What a policy counts: by tool and name."""
_Sort = tuple[str, Scope, bool]
"""(tool or `*`, whose, whether calls that wait for a person take nothing of it)."""
_EVER: Window = (None, None)
_FORGET_EVERY = 50_000


class Plan(NamedTuple):
    """A tool's counters: those that go by what was recorded, and those that are counted anew."""

    based: tuple[Counter, ...]
    anew: tuple[Counter, ...]


_NO_PLAN = Plan((), ())


def plan(candidate: Policy, tool: str, counted: Counts) -> Plan:
    """For calls of a tool that a policy decided which counted that."""
    counts = {name: {each.name: each for each in found.subjects_needed()} for name, found in candidate.tools.items()}
    counters, then = counts.get(tool, {}).values(), counted.get(tool, {})
    same = tuple(
        each
        for each in counters
        if _alike(each, then.get(each.name)) and _counting(each, counts) == _counting(each, counted)
    )
    return Plan(same, tuple(each for each in counters if each not in same))


def _alike(now: Counter, then: Counter | None) -> bool:
    """Whether both come to the same number of the same calls. What a limit allows does not matter to that."""
    if then is None:
        return False
    return (now.per, now.window_seconds, now.of, now.unasked, now.trips) == (
        *(then.per, then.window_seconds, then.of, then.unasked),
        then.trips,
    )


def _counting(counter: Counter, counts: Counts) -> frozenset[str]:
    """Where other tools' calls count too: the tools whose do; for a turn those that count by it themselves."""
    if _across(counter.per, unasked=counter.unasked) is None:
        return frozenset()
    if counter.per == TENANT:
        return frozenset(counts)
    return frozenset(
        tool
        for tool, found in counts.items()
        if any((each.per, each.unasked) == (counter.per, counter.unasked) for each in found.values())
    )


def looks_back(candidate: Policy, versions: Collection[Counts]) -> int | None:
    """For how many seconds before the first call that is decided again others have to be counted; None: for ever."""
    plans = [plan(candidate, tool, then) for then in versions for tool in candidate.tools]
    windows = [each.window_seconds for found in plans for each in found.anew]
    seconds = [each for each in windows if each is not None]
    return None if len(seconds) < len(windows) else max(seconds, default=0)


class _Kind(NamedTuple):
    """One sort of subject that calls of a tool count against."""

    per: Scope
    unasked: bool
    windows: tuple[Window, ...]
    anew: bool
    """Whether calls of some policy have to be counted anew by it."""


def _countable(call: RecordedCall, decided: Decided, words: frozenset[str]) -> Countable:
    claim, binding = decided.claim, call.binding
    return Countable(
        binding.run_id,
        call.request_id,
        call.trace_id,
        binding.customer_id,
        binding.agent_id,
        {name: each for name, each in call.arguments.items() if name not in words},
        None if claim is None else (claim.amount, claim.currency),
    )


@dataclass(slots=True)
class Taken:
    """What one call takes. `follow`: given back when the recorded call gave it back; `missing`: what that took and is
    not taken here."""

    follow: list[Use] = field(default_factory=list[Use])
    missing: list[Use] = field(default_factory=list[Use])

    def end(self, *, follows: bool) -> None:
        """The recorded call gave back what it took; `follows`: so does this one."""
        for each in self.missing:
            release(each)
        for each in self.follow if follows else ():
            release(each)

    def amend(self, amount: int) -> None:
        for each in self.follow:
            change(each, amount)
        for each in self.missing:
            change(each, -amount)


class Recount:
    """Counts for one candidate. Times are in seconds."""

    def __init__(self, candidate: Policy, versions: Mapping[str, Counts]) -> None:
        """`versions`: every policy that decided calls that are decided again, with what it counted, as far as known."""
        self._candidate = candidate
        self._plans = {
            version: {tool: plan(candidate, tool, counts) for tool in candidate.tools}
            for version, counts in versions.items()
        }
        anew: set[_Sort] = set()
        for then in self._plans.values():
            for tool, found in then.items():
                anew |= {_sort(tool, each.per, unasked=each.unasked) for each in found.anew}
        self._kinds = {tool: _kinds(candidate, tool, anew) for tool in candidate.tools}
        self._counts_anew = {tool for tool, kinds in self._kinds.items() if any(each.anew for each in kinds)}
        self._difference, self._anew = Book(), Book()
        self._parked: dict[tuple[str, str], int] = {}
        self._seen = 0

    def counts(
        self, call: RecordedCall, decided: Decided, words: frozenset[str], now: float
    ) -> tuple[Mapping[str, int], dict[str, Usage]]:
        """(totals, usage) of a call for which these were recorded; nothing under a policy that was not foreseen."""
        used = decided.usage or {}
        plans = self._plans.get(decided.decision.policy_version)
        if plans is None:
            return {}, {}
        how = plans.get(call.tool, _NO_PLAN)
        if not how.anew and not self._difference and not self._parked:
            return decided.totals, {name: Usage(each) for name, each in used.items()}
        subject = _countable(call, decided, words)
        totals, usage = dict(decided.totals), dict(used)
        for each in how.based:
            into = totals if each.name in totals else usage
            if each.name in into:
                into[each.name] += self._read(self._difference, each, call, subject, now)
        for each in how.anew:
            into = usage if each.max is not None else totals
            into[each.name] = self._read(self._anew, each, call, subject, now)
        tenant = call.binding.tenant
        for name, whose in ((PARKED_PER_TENANT, ""), (PARKED_PER_AGENT, call.binding.agent_id)):
            if name in usage:
                usage[name] += self._parked.get((tenant, whose), 0)
        return totals, {name: Usage(each) for name, each in usage.items()}

    def left(self, call: RecordedCall, decided: Decided, now: float) -> int:
        """How much is left of what the call takes from."""
        claim = decided.claim
        if claim is None:
            return 0
        key = (call.binding.tenant, ALL_TOOLS, claim.resource)
        return claim.available - self._difference.read(key, _EVER, now)[1]

    def take(
        self, call: RecordedCall, decided: Decided, words: frozenset[str], verdict: str, now: float
    ) -> Taken | None:
        """The call was decided so; None where nothing is to be remembered of it."""
        then = decided.decision.verdict
        if call.tool not in self._counts_anew and _takes(then) == _takes(verdict):
            return None
        self._tidy(now)
        subject, taken = _countable(call, decided, words), Taken()
        # Of before claims were recorded, what it took: of each subject the same.
        amount = decided.claim.amount if decided.claim else max(decided.uses.values(), default=0)
        for kind in self._kinds.get(call.tool, ()):
            was, is_ = _takes_of(then, unasked=kind.unasked), _takes_of(verdict, unasked=kind.unasked)
            if was == is_ and not (kind.anew and is_):
                continue
            key = _key(call, subject_of(kind.per, subject, unasked=kind.unasked))
            if kind.anew and is_:
                self._enter(self._anew, key, kind.windows, Use(now, 1, amount), taken.follow)
            if is_ and not was:
                self._enter(self._difference, key, kind.windows, Use(now, 1, amount), taken.follow)
            if was and not is_:
                self._enter(self._difference, key, kind.windows, Use(now, -1, -amount), taken.missing)
        if decided.claim is not None and (then == "refuse") != (verdict == "refuse"):
            key, sign = (call.binding.tenant, ALL_TOOLS, decided.claim.resource), 1 if then == "refuse" else -1
            into = taken.follow if sign > 0 else taken.missing
            self._enter(self._difference, key, (_EVER,), Use(now, sign, sign * amount), into)
        return taken

    def tripped(self, call: RecordedCall, now: float) -> None:
        """The breaker of the call's tool turned its switch off: from now on it counts anew."""
        tool = self._candidate.tool(call.tool)
        if tool is not None and tool.breaker is not None:
            window = (tool.breaker.window, tool.breaker.trips)
            for book in (self._anew, self._difference):
                book.cut((call.binding.tenant, call.tool, "tool"), window, now)

    def parked(self, call: RecordedCall, change: int) -> None:
        """So many more of the agent's calls wait for a person than did."""
        for whose in ("", call.binding.agent_id):
            key = (call.binding.tenant, whose)
            left = self._parked.get(key, 0) + change
            if left:
                self._parked[key] = left
            else:
                self._parked.pop(key, None)

    def _read(self, book: Book, counter: Counter, call: RecordedCall, subject: Countable, now: float) -> int:
        key = _key(call, subject_of(counter.per, subject, unasked=counter.unasked))
        count, amount = book.read(key, _window(counter), now)
        return amount if counter.of == "amount" else count

    def _enter(self, book: Book, key: Key, windows: tuple[Window, ...], use: Use, into: list[Use]) -> None:
        book.add(key, windows, use)
        into.append(use)

    def _tidy(self, now: float) -> None:
        self._seen += 1
        if self._seen % _FORGET_EVERY == 0:
            self._difference.forget(now)
            self._anew.forget(now)


def _takes(verdict: str) -> str:
    """Verdicts that take the same."""
    return "free" if verdict == "notify" else verdict


def _takes_of(verdict: str, *, unasked: bool) -> bool:
    return verdict != "refuse" and not (unasked and verdict == "hold")


def _key(call: RecordedCall, subject: str) -> Key:
    return call.binding.tenant, counted_for(subject, call.tool), subject


def _window(counter: Counter) -> Window:
    return counter.window_seconds, counter.trips


def _across(per: Scope, *, unasked: bool) -> str | None:
    """Where it is counted by calls of every tool."""
    return ALL_TOOLS if per in (TENANT, "turn") and not unasked else None


def _sort(tool: str, per: Scope, *, unasked: bool) -> _Sort:
    return _across(per, unasked=unasked) or tool, per, unasked


def _kinds(candidate: Policy, tool: str, anew: Collection[_Sort]) -> tuple[_Kind, ...]:
    """What its calls count against, for itself and for other tools of the policy, and in which windows."""
    policy_tool = candidate.tools[tool]
    own = policy_tool.subjects_needed()
    everywhere = [each for other in candidate.tools.values() for each in other.subjects_needed()]
    sorts: set[tuple[Scope, bool]] = {(each.per, each.unasked) for each in own}
    if policy_tool.counted_for_tenant:
        sorts.add((TENANT, False))
    found: list[_Kind] = []
    for per, unasked in sorted(sorts):
        counters = everywhere if _across(per, unasked=unasked) else own
        windows = {_window(each) for each in counters if (each.per, each.unasked) == (per, unasked)}
        is_anew = _sort(tool, per, unasked=unasked) in anew
        found.append(_Kind(per, unasked, tuple(windows), is_anew))
    return tuple(found)
