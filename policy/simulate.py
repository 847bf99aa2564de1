"""Decides recorded calls again under another policy, in the order in which they were decided. Pure.

A policy that is replayed over its own decisions makes the very same ones; `policy.recount` says how that is.

What would have become of a call that was not let through, nobody knows. One that the candidate lets run is taken to
have run; one that it holds, to have been approved after as long as people took otherwise.
"""

import heapq
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import msgspec

from policy.decide import Judged, judge, judge_read
from policy.model import BREAKER, NOTHING_DONE, Bound, Policy, Proposal, Usage
from policy.recount import Counts, Recount, Taken, Whose
from policy.tally import Change, Said, Side, Tally, kind_of
from schemas.calls import RunFacts
from schemas.decisions import Claim
from schemas.recorded import Changed, Closed, Decision, Ended, Happened, RecordedCall, RecordedClaim, RecordedDecision
from schemas.replies import Explanation
from schemas.tools import Manifest

UNDECIDED = frozenset(("switch", "phase", "policy_unusable", "facts", "facts_unreadable"))
"""Rules of decisions that no policy makes."""
_UNASKED = ("free", "notify")
_NONE: Mapping[str, Collection[str]] = {}
_NO_COUNTS: Mapping[str, int] = {}
_NO_USAGE: Mapping[str, Usage] = {}
_Made = Judged | RecordedDecision


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a tool. `words`: its arguments that do not say what is to be done."""

    manifest: Manifest
    words: frozenset[str]


@dataclass(slots=True)
class _Open:
    """A call that has not come to its end: what was decided about it, and what is now."""

    call: RecordedCall
    claim: RecordedClaim | None
    then: str
    now: str
    since: float
    taken: Taken | None
    asked: bool
    """Whether a person is still asked; as it was recorded."""
    denied: bool = False


class Simulation:
    """One candidate, over the calls of any number of tenants."""

    def __init__(
        self,
        candidate: Policy,
        tools: Mapping[str, Known],
        versions: Mapping[str, Counts],
        waits: Mapping[str, float],
        since: datetime | None = None,
        standing: Mapping[str, Collection[str]] = _NONE,
    ) -> None:
        """`versions`: every policy by which calls were decided, and what it counted, as far as that is known. `waits`:
        how many seconds people take, by tool, and by `` for the others. Calls from before `since` only count for later
        ones. `standing`: by version, tools of which the candidate says the very same: where the same is counted for a
        call too, what was decided about it stands, and nothing is evaluated."""
        self.tally = Tally()
        self._candidate = candidate
        self._tools = tools
        self._recount = Recount(candidate, versions)
        self._waits = waits
        self._since = since
        self._standing = standing
        self._open: dict[str, _Open] = {}
        self._closing: list[tuple[float, int, float, RecordedCall]] = []
        self._number = 0

    def happened(self, what: Happened) -> Change | None:
        """The next thing in the order of the ledger; a call about which the candidate decides otherwise."""
        if isinstance(what, Decision):
            return self._decision(what)
        call = self._open.get(what.request_id)
        if call is not None:
            if isinstance(what, Closed):
                self._closed(call, what)
            elif isinstance(what, Ended):
                self._ended(call, what)
            else:
                self._amended(call, what)
        return None

    def follows(self, request_id: str) -> bool:
        """Whether it is of interest what becomes of a call."""
        return request_id in self._open

    def finish(self, at: datetime) -> Tally:
        """What it all came to by then."""
        now = at.timestamp()
        self._pass(now)
        for _, _, begun, _ in self._closing:
            self.tally.now.queue.leave(now - begun)
        self._closing.clear()
        for call in self._open.values():
            self._answered(call, now)
        return self.tally

    def _decision(self, what: Decision) -> Change | None:
        call, decided, tally = what.call, what.decided, self.tally
        known, then = self._tools.get(call.tool), decided.decision
        replayed = self._since is None or what.at >= self._since
        now: _Made | None = None
        whose = None if known is None else Whose(call, decided, known.words)
        if then.rule in UNDECIDED:
            why = "not_by_policy"
        elif not what.complete:
            why = "older"
        elif known is None or whose is None:
            why = "no_tool"
        else:
            why = None
            if replayed:
                now = self._decide(what, known, whose)
        if replayed and why is not None:
            tally.left[why] += 1
        verdict = then.verdict if now is None else now.verdict
        if known is not None and whose is not None and known.manifest.writes and why != "not_by_policy":
            self._remember(what, whose, verdict, counts=now is not None)
        if now is None:
            return None
        return self._compared(what, now)

    def _decide(self, what: Decision, known: Known, whose: Whose) -> _Made:
        call, decided, at = what.call, what.decided, what.at.timestamp()
        stands = self._stands(what, known)
        if not known.manifest.writes:
            return decided.decision if stands else judge_read(self._candidate, _proposal(what, known, whose))
        self._pass(at)
        counted, left = self._recount.counts(whose, at), self._recount.left(whose, at)
        claim = decided.claim
        if stands and counted.same and (claim is None or left == claim.available):
            made = decided.decision
        else:
            bound = None
            if claim is not None:
                taken = Claim(resource=claim.resource, amount=claim.amount, available=left, currency=claim.currency)
                bound = Bound(taken, _unsaid)
            usage = {name: _usage(each) for name, each in counted.usage.items()}
            made = judge(self._candidate, _proposal(what, known, whose, counted.totals, usage, bound))
        if made.rule == BREAKER and made.verdict == "refuse":
            self._recount.tripped(call, at)
            self.tally.trips += decided.decision.rule != BREAKER
        return made

    def _stands(self, what: Decision, known: Known) -> bool:
        """Whether the candidate says the same about calls of this tool; a tool may have changed itself."""
        standing = self._standing.get(what.decided.decision.policy_version, ())
        return what.call.tool in standing and what.call.tool_version == known.manifest.version

    def _compared(self, what: Decision, made: _Made) -> Change | None:
        tally, then, claim = self.tally, what.decided.decision, what.decided.claim
        tally.calls += 1
        tally.first = tally.first or what.at
        tally.last = what.at
        for side, decision in ((tally.then, then), (tally.now, made)):
            side.verdicts[decision.verdict] += 1
            if decision.verdict == "hold":
                side.asked[decision.approvers or ""] += decision.people
        same = then.verdict == made.verdict and then.rule == made.rule and then.code == made.code
        if same and then.rules == made.rules:
            return None
        before = Said(then.verdict, then.rule, then.rules, then.code)
        after = Said(made.verdict, made.rule, made.rules, made.code)
        amount, currency = (claim.amount, claim.currency) if claim else (None, None)
        kind = kind_of(before.verdict, after.verdict)
        change = Change(what.at, what.call.request_id, what.call.tool, kind, before, after, amount, currency)
        tally.changed(change)
        return change

    # What becomes of it

    def _remember(self, what: Decision, whose: Whose, verdict: str, *, counts: bool) -> None:
        """`counts`: it was decided again, so that it is in the sums."""
        call, decided = what.call, what.decided
        then = decided.decision.verdict
        if then == verdict == "refuse":
            return
        at = what.at.timestamp()
        taken = self._recount.take(whose, verdict, at)
        if counts:
            self._moves(then, self.tally.then, decided.claim)
            self._moves(verdict, self.tally.now, decided.claim)
            self._queue(call, then, verdict, at)
        if then != "refuse" and (counts or taken is not None):
            claim = decided.claim if counts else None
            self._open[call.request_id] = _Open(call, claim, then, verdict, at, taken, asked=counts and then == "hold")

    def _moves(self, verdict: str, side: Side, claim: RecordedClaim | None, sign: int = 1) -> None:
        if claim is not None and verdict in _UNASKED:
            side.money[claim.currency] += sign * claim.amount

    def _queue(self, call: RecordedCall, then: str, now: str, at: float) -> None:
        if then == "hold":
            self.tally.then.queue.join()
        if now == "hold":
            self.tally.now.queue.join()
        if (then == "hold") == (now == "hold"):
            return
        self._recount.parked(call, 1 if now == "hold" else -1)
        if now == "hold":
            wait = self._waits.get(call.tool, self._waits.get("", 0.0))
            self._number += 1
            heapq.heappush(self._closing, (at + wait, self._number, at, call))

    def _pass(self, now: float) -> None:
        """People have answered what they would have been asked."""
        while self._closing and self._closing[0][0] <= now:
            until, _, since, call = heapq.heappop(self._closing)
            self.tally.now.queue.leave(until - since)
            self._recount.parked(call, -1)

    def _answered(self, open_: _Open, at: float) -> None:
        if not open_.asked:
            return
        open_.asked = False
        self.tally.then.queue.leave(at - open_.since)
        if open_.now == "hold":
            self.tally.now.queue.leave(at - open_.since)
        else:
            self._recount.parked(open_.call, 1)

    def _closed(self, open_: _Open, what: Closed) -> None:
        open_.denied = not what.granted
        self._answered(open_, what.at.timestamp())

    def _ended(self, open_: _Open, what: Ended) -> None:
        del self._open[what.request_id]
        self._answered(open_, what.at.timestamp())
        if what.executed:
            return
        # A person ended what the candidate would not have asked about: it would have run.
        follows = not (open_.denied and open_.now in _UNASKED)
        if open_.taken is not None:
            open_.taken.end(follows=follows)
        self._moves(open_.then, self.tally.then, open_.claim, -1)
        if follows:
            self._moves(open_.now, self.tally.now, open_.claim, -1)

    def _amended(self, open_: _Open, what: Changed) -> None:
        """A person changed it: what the candidate lets run without one is as it was."""
        if open_.taken is not None and open_.now not in _UNASKED:
            open_.taken.amend(what.amount)


def _proposal(
    what: Decision,
    known: Known,
    whose: Whose,
    totals: Mapping[str, int] = _NO_COUNTS,
    usage: Mapping[str, Usage] = _NO_USAGE,
    bound: Bound | None = None,
) -> Proposal:
    decided = what.decided
    return Proposal(
        tool=what.call.tool,
        manifest=known.manifest,
        arguments=whose.arguments,
        facts=msgspec.json.decode(decided.facts),
        run=_run(decided.run.tools, decided.run.touched) if decided.run else NOTHING_DONE,
        totals=totals,
        usage=usage,
        bound=bound,
    )


@lru_cache(maxsize=4096)
def _run(tools: tuple[str, ...], touched: tuple[str, ...]) -> RunFacts:
    return RunFacts.model_validate({"tools": tools, "touched": touched})


@lru_cache(maxsize=4096)
def _usage(used: int) -> Usage:
    return Usage(used)


def _unsaid(_: Claim) -> Explanation:
    """Nobody is told."""
    return Explanation()
