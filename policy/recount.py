"""What a candidate counts for recorded calls, where it would have let others run than those that did. Pure.

A counter is based on what was recorded where the policy of then counted the same by the same name: earlier calls that
would have taken something else are then added or taken off. Any other is counted anew, from the calls as they come.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple, cast

import msgspec

from policy.model import PARKED_PER_AGENT, PARKED_PER_TENANT, Counter, Policy
from policy.sliding import Book, Key, Use, Window, change, release
from schemas.canonical import digest
from schemas.recorded import Decided, RecordedCall
from schemas.subjects import ALL_TOOLS, TENANT, Basis, Countable, counted_for, subject_of, written

Counts = Mapping[str, Mapping[str, Counter]]
"""What a policy counts: by tool and name."""
_Sort = tuple[str, Basis]
"""(tool or `*`, by whom or what)."""
_EVER: Window = (None, None)
_FORGET_EVERY = 50_000
_NOTHING: Mapping[str, Any] = {}
_PLAIN = frozenset((str, int, bool))


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
    return (now.basis, now.window_seconds, now.of, now.trips) == (then.basis, then.window_seconds, then.of, then.trips)


def _counting(counter: Counter, counts: Counts) -> frozenset[str]:
    """Where other tools' calls count too: the tools whose do; save for a tenant, those that count so themselves."""
    if not counter.basis.spans_tools:
        return frozenset()
    if counter.per == TENANT:
        return frozenset(counts)
    return frozenset(
        tool for tool, found in counts.items() if any(each.basis == counter.basis for each in found.values())
    )


def looks_back(candidate: Policy, versions: Collection[Counts]) -> int | None:
    """For how many seconds before the first call that is decided again others have to be counted; None: for ever."""
    plans = [plan(candidate, tool, then) for then in versions for tool in candidate.tools]
    windows = [each.window_seconds for found in plans for each in found.anew]
    seconds = [each for each in windows if each is not None]
    return None if len(seconds) < len(windows) else max(seconds, default=0)


class _Kind(NamedTuple):
    """One sort of subject that calls of a tool count against."""

    basis: Basis
    windows: tuple[Window, ...]
    anew: bool
    """Whether calls of some policy have to be counted anew by it."""
    sort: _Sort


class _Group(NamedTuple):
    """Counters of a tool that count the same uses: what each is called, which way it is counted, and from when on."""

    basis: Basis
    sort: _Sort
    counters: tuple[tuple[Counter, Window, bool], ...]
    anew: bool


class Whose:
    """A recorded call, and whom or what it counts against, found out as far as it is asked for."""

    __slots__ = ("_arguments", "_keys", "call", "decided", "words")

    def __init__(self, call: RecordedCall, decided: Decided, words: frozenset[str]) -> None:
        """`words`: arguments that do not say what is to be done."""
        self.call = call
        self.decided = decided
        self.words = words
        self._arguments: dict[str, Any] | None = None
        self._keys: dict[Basis, Key] = {}

    @property
    def arguments(self) -> dict[str, Any]:
        if self._arguments is None:
            self._arguments = cast("dict[str, Any]", msgspec.json.decode(self.call.arguments))
        return self._arguments

    def key(self, basis: Basis) -> Key:
        found = self._keys.get(basis)
        if found is None:
            subject, call = self._subject(basis), self.call
            found = self._keys[basis] = (call.binding.tenant, counted_for(subject, call.tool), subject)
        return found

    def _subject(self, basis: Basis) -> str:
        if basis.per == "repeat":
            return written(basis, self._same())
        claim, binding, call = self.decided.claim, self.call.binding, self.call
        countable = Countable(
            binding.run_id,
            call.request_id,
            call.trace_id,
            binding.customer_id,
            binding.agent_id,
            self.arguments if basis.per == "order" else _NOTHING,
            None if claim is None else (claim.amount, claim.currency),
        )
        return subject_of(basis, countable)

    def _same(self) -> str:
        """As the ledger does, of calls that are alike one text; it is another text where that is quicker."""
        does = {name: each for name, each in self.arguments.items() if name not in self.words}
        does["customer_id"] = self.call.binding.customer_id
        if all(type(each) in _PLAIN for each in does.values()):
            return msgspec.json.encode(does, order="sorted").decode()
        return digest(does)


class Counted(NamedTuple):
    """What was counted for a call; `same`: that is just what was recorded."""

    totals: Mapping[str, int]
    usage: Mapping[str, int]
    same: bool


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
        plans = {
            version: {tool: plan(candidate, tool, counts) for tool in candidate.tools}
            for version, counts in versions.items()
        }
        anew: set[_Sort] = set()
        for then in plans.values():
            for tool, found in then.items():
                anew |= {_sort(tool, each.basis) for each in found.anew}
        self._groups = {
            version: {tool: _groups(tool, found) for tool, found in then.items()} for version, then in plans.items()
        }
        self._kinds = {tool: _kinds(candidate, tool, anew) for tool in candidate.tools}
        self._counts_anew = {tool for tool, kinds in self._kinds.items() if any(each.anew for each in kinds)}
        self._difference, self._anew = Book(), Book()
        self._differs: set[_Sort] = set()
        """Of which there ever was a difference."""
        self._parked: dict[tuple[str, str], int] = {}
        self._seen = 0

    def counts(self, whose: Whose, now: float) -> Counted:
        """What is counted for a call; nothing under a policy that was not foreseen."""
        call, decided = whose.call, whose.decided
        used = decided.usage or {}
        groups = self._groups.get(decided.decision.policy_version)
        if groups is None:
            return Counted({}, {}, same=False)
        totals, usage, same = decided.totals, used, True
        for group in groups.get(call.tool, ()):
            book = self._anew if group.anew else self._difference
            if not group.anew and (group.sort not in self._differs or whose.key(group.basis) not in book):
                continue
            if same:
                totals, usage, same = dict(totals), dict(usage), False
            key = whose.key(group.basis)
            for counter, window, limits in group.counters:
                count, amount = book.read(key, window, now)
                read = amount if counter.of == "amount" else count
                into = usage if limits else totals
                if group.anew:
                    into[counter.name] = read
                elif counter.name in into:
                    into[counter.name] += read
        for name, agent in ((PARKED_PER_TENANT, ""), (PARKED_PER_AGENT, call.binding.agent_id)) if self._parked else ():
            more = self._parked.get((call.binding.tenant, agent), 0)
            if more and name in usage:
                usage, same = {**usage, name: usage[name] + more}, False
        return Counted(totals, usage, same)

    def left(self, whose: Whose, now: float) -> int:
        """How much is left of what the call takes from."""
        call, claim = whose.call, whose.decided.claim
        if claim is None:
            return 0
        key = (call.binding.tenant, ALL_TOOLS, claim.resource)
        return claim.available - self._difference.read(key, _EVER, now)[1]

    def take(self, whose: Whose, verdict: str, now: float) -> Taken | None:
        """The call was decided so; None where nothing is to be remembered of it."""
        call, decided = whose.call, whose.decided
        then = decided.decision.verdict
        if call.tool not in self._counts_anew and _takes(then) == _takes(verdict):
            return None
        self._tidy(now)
        taken = Taken()
        # Of before claims were recorded, what it took: of each subject the same.
        amount = decided.claim.amount if decided.claim else max(decided.uses.values(), default=0)
        for kind in self._kinds.get(call.tool, ()):
            was, is_ = (_takes_of(each, unasked=kind.basis.unasked) for each in (then, verdict))
            if was == is_ and not (kind.anew and is_):
                continue
            key = whose.key(kind.basis)
            if is_ != was:
                self._differs.add(kind.sort)
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


def _window(counter: Counter) -> Window:
    return counter.window_seconds, counter.trips


def _sort(tool: str, basis: Basis) -> _Sort:
    return ALL_TOOLS if basis.spans_tools else tool, basis


def _kinds(candidate: Policy, tool: str, anew: Collection[_Sort]) -> tuple[_Kind, ...]:
    """What its calls count against, for itself and for other tools of the policy, and in which windows."""
    policy_tool = candidate.tools[tool]
    own = policy_tool.subjects_needed()
    everywhere = [each for other in candidate.tools.values() for each in other.subjects_needed()]
    bases = {each.basis for each in own}
    if policy_tool.counted_for_tenant:
        bases.add(Basis(TENANT))
    found: list[_Kind] = []
    for basis in sorted(bases):
        counters = everywhere if basis.spans_tools else own
        windows = {_window(each) for each in counters if each.basis == basis}
        sort = _sort(tool, basis)
        found.append(_Kind(basis, tuple(windows), sort in anew, sort))
    return tuple(found)


def _groups(tool: str, found: Plan) -> tuple[_Group, ...]:
    def sort(counter: Counter) -> _Sort:
        return _sort(tool, counter.basis)

    groups: list[_Group] = []
    for anew, counters in ((False, found.based), (True, found.anew)):
        for each, alike in groupby(sorted(counters, key=sort), key=sort):
            of_it = tuple((counter, _window(counter), counter.max is not None) for counter in alike)
            groups.append(_Group(each[1], each, of_it, anew))
    return tuple(groups)
