"""What a candidate would have decided, against counting everything by hand."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.counters import counters_of, sections_of
from policy.decide import decide
from policy.load import load_policy
from policy.model import BREAKER, PARKED_PER_AGENT, PARKED_PER_TENANT, Bound, Counter, Policy, Proposal, Usage
from policy.recount import looks_back, plan
from policy.simulate import Known, Simulation
from policy.tally import Change, Tally
from schemas.decisions import Claim, PolicyDecision
from schemas.recorded import (
    Changed,
    Closed,
    Decided,
    Decision,
    Ended,
    Happened,
    RecordedBinding,
    RecordedCall,
    RecordedClaim,
    RecordedDecision,
    RecordedRun,
)
from schemas.replies import Explanation
from tests.policy.refunds import MANIFEST

UNHURRIED = settings(deadline=None, max_examples=40)
NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
TOOL, OTHER = "issue_refund", "issue_credit"
TOOLS: dict[str, Known] = dict.fromkeys((TOOL, OTHER), Known(MANIFEST, frozenset(("idempotency_key", "note"))))
TEXT = """
name: small
defaults: {{approvers: finance, deadline: 24h, parked: {{per_agent: 3, per_tenant: 5}}}}
tools:
  issue_refund:
    thresholds: {{large: {large}}}
    totals:
      customer: {{per: customer, window: {window}, of: amount}}
      agent: {{per: agent, window: 2h, of: amount, unasked: true}}
      order: {{per: order, of: count}}
      repeat: {{per: repeat, window: 1h, of: count}}
      given: {{per: customer, window: {window}, of: amount, together: true}}
    limits:
      - {{name: of_run, per: run, max: {most}}}
      - {{name: of_tenant, per: tenant, window: 3h, of: amount, max: 9000}}
    breaker: {{window: 1h, max: 6, trips: "class:money_movement"}}
    rules:
      - {{name: large, hold: finance, when: args.amount_cents > thresholds.large, because: it is large}}
      - {{name: customer, hold: leads, people: 2, when: totals.customer + args.amount_cents > 2500, because: too much}}
      - {{name: agent, hold: finance, when: totals.agent > 3000, because: too much}}
      - {{name: again, hold: finance, when: totals.repeat > 0 || totals.order > 2, because: again}}
      - {{name: given, hold: leads, when: totals.given > 2500, because: with credits it is too much}}
    otherwise: notify
  issue_credit:
    limits:
      - {{name: given, per: customer, window: 4h, of: amount, max: 4000, together: true}}
    rules:
      - {{name: large, hold: finance, when: args.amount_cents > 1500, because: it is large}}
    otherwise: notify
"""


def policy(folder: Path, *, large: int = 1500, window: str = "2h", most: int = 4) -> Policy:
    file = folder / "policy.yaml"
    file.write_text(TEXT.format(large=large, window=window, most=most))
    return load_policy(file)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("policies")


@dataclass
class Asked:
    """One call of a random history; what became of it: what a person said, and whether its effect happened."""

    minutes: int
    customer: int
    run: int
    amount: int
    order: int
    approved: bool
    works: bool
    lasts: int
    tool: str = TOOL


@dataclass
class Use:
    at: datetime
    tool: str
    amount: int
    asked: bool
    subjects: dict[str, object]
    until: datetime | None = None
    parked_until: datetime | None = None


@dataclass
class ByHand:
    """Counts as the ledger does, by looking through every call before."""

    policy: Policy
    uses: list[Use] = field(default_factory=list[Use])
    trips: list[datetime] = field(default_factory=list[datetime])

    def counts(self, tool: str, counter: Counter) -> bool:
        return any(each.basis == counter.basis for each in self.policy.tools[tool].subjects_needed())

    def count(self, tool: str, counter: Counter, subjects: dict[str, object], now: datetime) -> int:
        since = datetime.min.replace(tzinfo=UTC)
        if counter.window_seconds is not None:
            since = now - timedelta(seconds=counter.window_seconds)
        if counter.trips is not None and self.trips:
            since = max(since, self.trips[-1])
        live = [
            use
            for use in self.uses
            if use.at > since
            and (use.until is None or use.until > now)
            and use.subjects[counter.per] == subjects[counter.per]
            and not (counter.unasked and use.asked)
            and (use.tool == tool or counter.per == "tenant" or (counter.together and self.counts(use.tool, counter)))
        ]
        return sum(use.amount for use in live) if counter.of == "amount" else len(live)

    def decide(self, asked: Asked, now: datetime) -> tuple[PolicyDecision, Proposal]:
        tool = self.policy.tools[asked.tool]
        subjects = subjects_of(asked)
        parked = sum(use.parked_until is not None and use.parked_until > now for use in self.uses)
        proposal = Proposal(
            tool=asked.tool,
            manifest=MANIFEST,
            arguments=arguments(asked),
            facts={},
            totals={each.name: self.count(asked.tool, each, subjects, now) for each in tool.totals},
            usage={
                each.name: Usage(self.count(asked.tool, each, subjects, now))
                for each in tool.subjects_needed()
                if each.max is not None
            }
            | {PARKED_PER_AGENT: Usage(parked), PARKED_PER_TENANT: Usage(parked)},
            bound=Bound(claim(asked), lambda _: Explanation()),
        )
        made = decide(self.policy, proposal)
        if made.rule == BREAKER:
            self.trips.append(now)
        return made, proposal


def subjects_of(asked: Asked) -> dict[str, object]:
    return {
        "customer": asked.customer,
        "run": asked.run,
        "agent": 0,
        "order": asked.order,
        "tool": 0,
        "tenant": 0,
        "repeat": (asked.customer, asked.order, asked.amount, asked.tool),
    }


def arguments(asked: Asked) -> dict[str, Any]:
    return {"order_id": f"ord_{asked.order}", "amount_cents": asked.amount, "note": str(asked.minutes)}


def claim(asked: Asked) -> Claim:
    return Claim(resource=f"payment:{asked.order}", amount=asked.amount, available=10**6, currency="USD")


def history(by: Policy, calls: list[Asked]) -> list[Happened]:
    """What the ledger holds of these calls, decided by this policy, in the order in which it happened."""
    hand, happened, now = ByHand(by), list[Happened](), NOON
    for number, asked in enumerate(calls):
        now += timedelta(minutes=asked.minutes)
        made, proposal = hand.decide(asked, now)
        happened.append(recorded(number, asked, now, made, proposal))
        name, later = f"act_{number}", now + timedelta(minutes=asked.lasts)
        if made.verdict == "refuse":
            happened.append(Ended(now, name, executed=False))
            continue
        held = made.verdict == "hold"
        executed = asked.works and (asked.approved or not held)
        hand.uses.append(
            Use(
                now,
                asked.tool,
                asked.amount,
                held,
                subjects_of(asked),
                None if executed else later,
                later if held else None,
            )
        )
        if held:
            happened.append(Closed(later, name, granted=asked.approved))
        happened.append(Ended(later, name, executed=executed))
    return sorted(happened, key=lambda each: each.at)


def recorded(number: int, asked: Asked, at: datetime, made: PolicyDecision, proposal: Proposal) -> Decision:
    decision = RecordedDecision(
        made.verdict, made.rule, made.policy_version, made.rules, made.code, made.people, made.approvers
    )
    taken = claim(asked)
    decided = Decided(
        decision=decision,
        facts=raw({}),
        totals=dict(proposal.totals),
        usage={name: each.used for name, each in proposal.usage.items()},
        claim=RecordedClaim(taken.resource, taken.amount, taken.available, taken.currency),
        run=RecordedRun(),
    )
    binding = RecordedBinding("acme", f"run_{asked.run}", "bot", f"cus_{asked.customer}")
    return Decision(
        at,
        RecordedCall(f"act_{number}", binding, asked.tool, MANIFEST.version, raw(arguments(asked))),
        decided,
        complete=True,
    )


def raw(value: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def simulated(
    candidate: Policy, then: Policy, happened: list[Happened], *, known: bool = True
) -> tuple[list[Change], Tally]:
    counts = counters_of(then.document.model_dump(exclude_defaults=True), dict.fromkeys(TOOLS, ())) if known else {}
    simulation = Simulation(candidate, TOOLS, {then.version: counts}, {"": 600.0})
    changes = [change for each in happened if (change := simulation.happened(each)) is not None]
    return changes, simulation.finish(NOON + timedelta(days=2))


CALLS = st.lists(
    st.builds(
        Asked,
        minutes=st.integers(1, 90),
        customer=st.integers(0, 1),
        run=st.integers(0, 1),
        amount=st.sampled_from((400, 900, 1600)),
        order=st.integers(0, 2),
        approved=st.booleans(),
        works=st.booleans(),
        lasts=st.integers(0, 200),
        tool=st.sampled_from((TOOL, TOOL, OTHER)),
    ),
    max_size=25,
)


@UNHURRIED
@given(calls=CALLS)
def test_a_policy_makes_its_own_decisions_again(folder: Path, calls: list[Asked]) -> None:
    by = policy(folder)
    happened = history(by, calls)
    for known in (True, False):  # from what was recorded, and all of it counted anew
        changes, tally = simulated(by, by, happened, known=known)
        assert changes == []
        assert tally.then.verdicts == tally.now.verdicts
        assert tally.then.money == tally.now.money
        assert (tally.then.queue, tally.then.asked) == (tally.now.queue, tally.now.asked)
        assert tally.calls == len(calls)


@UNHURRIED
@given(calls=CALLS)
def test_what_is_counted_otherwise_is_counted_as_the_ledger_would(folder: Path, calls: list[Asked]) -> None:
    """Where nothing is ever held, denied or failing, what would have become of a call is known."""
    calls = [replace(each, works=True, approved=True, lasts=0) for each in calls]
    then = policy(folder, large=10**6, window="1h", most=100)
    candidate = policy(folder, large=900, window="5h", most=3)
    happened = history(then, calls)
    changes, _ = simulated(candidate, then, happened)
    hand = history(candidate, calls)
    wanted = {
        each.call.request_id: (each.decided.decision.verdict, each.decided.decision.rule)
        for each in hand
        if isinstance(each, Decision)
    }
    was = {
        each.call.request_id: (each.decided.decision.verdict, each.decided.decision.rule)
        for each in happened
        if isinstance(each, Decision)
    }
    found = was | {change.request_id: (change.now.verdict, change.now.rule) for change in changes}
    assert found == wanted


def one(minutes: int = 10, **changes: Any) -> Asked:
    usual: dict[str, Any] = {
        "customer": 0,
        "run": 0,
        "amount": 900,
        "order": 0,
        "approved": True,
        "works": True,
        "lasts": 5,
    }
    return Asked(minutes=minutes, **{**usual, **changes})


def test_what_moves_without_a_person(folder: Path) -> None:
    """What a person denied would have gone; what failed went nowhere, whoever was asked."""
    then, candidate = policy(folder), policy(folder, large=2000)
    calls = [one(amount=1600, approved=False), one(200, order=1, works=False), one(200, order=2)]
    changes, tally = simulated(candidate, then, history(then, calls))
    assert [(change.request_id, change.kind) for change in changes] == [("act_0", "freed")]
    assert tally.then.money == {"USD": 900}
    assert tally.now.money == {"USD": 2500}
    assert (tally.then.asked, tally.now.asked.total()) == ({"finance": 1}, 0)
    assert (tally.then.queue.most, tally.then.queue.seconds, tally.now.queue.most) == (1, 300.0, 0)


def test_what_is_newly_held_waits_as_long_as_people_take(folder: Path) -> None:
    then, candidate = policy(folder), policy(folder, large=500)
    calls = [one(minutes, order=minutes, customer=minutes) for minutes in (1, 2, 3, 200)]
    changes, tally = simulated(candidate, then, history(then, calls))
    assert {change.kind for change in changes} == {"held"}
    assert (tally.now.queue.most, tally.now.queue.seconds) == (3, 4 * 600.0)
    assert tally.now.asked == {"finance": 4}
    assert tally.now.money == {}


def test_too_many_that_would_wait_are_refused(folder: Path) -> None:
    then, candidate = policy(folder), policy(folder, large=500)
    calls = [one(1, order=n, customer=n, run=n) for n in range(5)]
    changes, _ = simulated(candidate, then, history(then, calls))
    assert [change.now.rule for change in changes] == ["large"] * 3 + [PARKED_PER_AGENT] * 2


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda each: setattr(each, "complete", False), "older"),
        (lambda each: setattr(each.decided.decision, "rule", "facts_unreadable"), "not_by_policy"),
        (lambda each: setattr(each.call, "tool", "gone"), "no_tool"),
    ],
)
def test_what_cannot_be_decided_again_is_left_and_counted(
    folder: Path, change: Callable[[Any], None], left: str
) -> None:
    then, candidate = policy(folder), policy(folder, large=500)
    happened = history(then, [one(), one(order=1)])
    change(happened[0])
    changes, tally = simulated(candidate, then, happened)
    assert tally.left == {left: 1}
    assert (tally.calls, [each.request_id for each in changes]) == (1, ["act_1"])


def test_what_was_left_counts_for_others(folder: Path) -> None:
    """A window that nobody counted by is counted from older calls too, at what they took."""
    then, candidate = policy(folder), policy(folder, window="5h")
    happened = history(
        then, [one(amount=1000, lasts=0), one(200, amount=1400, order=1), one(200, amount=1200, order=2)]
    )
    for each in happened:
        if isinstance(each, Decision) and each.call.request_id == "act_0":
            each.complete, each.decided.claim = False, None
            each.decided.uses = {"customer:cus_0": 1400}
    changes, tally = simulated(candidate, then, happened)
    assert [(change.request_id, change.now.rule) for change in changes] == [
        ("act_1", "customer"),
        ("act_2", "customer"),
    ]
    assert tally.left == {"older": 1}


def test_a_person_may_change_what_is_taken(folder: Path) -> None:
    then, candidate = policy(folder), policy(folder, window="5h")
    happened = history(then, [one(amount=1600, lasts=60), one(150, amount=1400, order=1)])
    at = happened[0].at + timedelta(minutes=1)
    assert [change.now.rule for change in simulated(candidate, then, happened)[0]] == ["customer"]
    happened.insert(1, Changed(at, "act_0", 500))
    assert simulated(candidate, then, happened)[0] == []


def test_how_far_back_calls_are_counted(folder: Path) -> None:
    then = policy(folder)
    known = counters_of(then.document.model_dump(exclude_defaults=True), dict.fromkeys(TOOLS, ()))
    assert looks_back(then, [known]) == 0
    assert looks_back(policy(folder, window="5h", most=9), [known]) == 5 * 3600
    assert looks_back(then, [{}]) is None


def test_a_text_that_is_not_as_it_should_be_is_not_known(folder: Path) -> None:
    assert counters_of({"tools": {TOOL: {"totals": {"x": {}}}}}, {TOOL: ()}) == {}
    assert counters_of({}, {TOOL: ()}) == {}
    tools = policy(folder).document.model_dump(exclude_defaults=True)
    assert set(counters_of(tools, {TOOL: ()})[TOOL]) == {
        *("customer", "agent", "order", "repeat", "given", "of_run", "of_tenant"),
        BREAKER,
    }


ACROSS = """
name: across
defaults: {approvers: finance, deadline: 24h}
across:
  class:money_movement:
    totals: {turn: {per: turn, of: count}}
    rules: [{name: many, hold: finance, when: totals.turn > 1, because: many}]
tools:
  issue_refund: {otherwise: free}
  send_money: {otherwise: free%s}
"""
KINDS = {TOOL: ("class:money_movement",), "send_money": ("class:money_movement",)}


def test_what_is_said_across_tools_is_counted_where_it_holds() -> None:
    document = yaml.safe_load(ACROSS % "")
    counter = Counter("turn", "turn", None, "count")
    assert counters_of(document, KINDS) == {kind: {"turn": counter} for kind in KINDS}
    assert counters_of(document, {TOOL: ()}) == {TOOL: {}}
    excepted = yaml.safe_load(ACROSS % ", without: [many]")
    assert counters_of(excepted, KINDS) == {TOOL: {"turn": counter}, "send_money": {}}


def test_a_turn_is_counted_anew_where_other_tools_count_by_it(tmp_path: Path) -> None:
    """What was recorded for one tool does not say what another one's calls come to."""
    text = yaml.safe_load(ACROSS % "")
    section = {**text["across"].pop("class:money_movement"), "otherwise": "free"}
    file = tmp_path / "policy.yaml"
    file.write_text(yaml.safe_dump(text | {"tools": dict.fromkeys(KINDS, section)}))
    candidate = load_policy(file)
    both, one = (counters_of(yaml.safe_load(ACROSS % but), KINDS) for but in ("", ", without: [many]"))
    assert [plan(candidate, TOOL, then).anew == () for then in (both, one)] == [True, False]
    happened: list[Happened] = []
    for number, (tool, turn) in enumerate(
        [("send_money", "a"), ("send_money", "b"), ("send_money", "a"), (TOOL, "a"), (TOOL, "b")]
    ):
        call = RecordedCall(
            f"act_{number}", RecordedBinding("acme", "run_1", "bot", "cus_1"), tool, MANIFEST.version, raw({}), turn
        )
        decided = Decided(
            RecordedDecision("free", "otherwise", "across@1"), raw({}), {"turn": 0}, usage={}, run=RecordedRun()
        )
        happened.append(Decision(NOON + timedelta(minutes=number), call, decided, complete=True))
    tools = dict.fromkeys(KINDS, TOOLS[TOOL])
    simulation = Simulation(candidate, tools, {"across@1": one}, {})
    changes = [change for each in happened if (change := simulation.happened(each)) is not None]
    assert [(change.request_id, change.now.rule) for change in changes] == [("act_3", "many")]


SHARED = """
name: shared
defaults: {approvers: finance, deadline: 24h}
tools:
  issue_refund: {otherwise: %s}
  send_money: {otherwise: free, limits: [{name: of_tenant, per: tenant, max: 2}]}
"""


def test_what_has_to_stay_is_not_evaluated(tmp_path: Path) -> None:
    """Unless it was counted otherwise, or the tool is another one."""
    file = tmp_path / "policy.yaml"
    file.write_text(SHARED % "refuse")
    candidate, tools = load_policy(file), dict.fromkeys(KINDS, TOOLS[TOOL])
    counts = {"send_money": {each.name: each for each in candidate.tools["send_money"].subjects_needed()}, TOOL: {}}

    def changes(*calls: tuple[str, int, str], standing: tuple[str, ...]) -> list[tuple[str, str]]:
        simulation = Simulation(candidate, tools, {"then": counts}, {}, standing={"then": standing})
        found: list[tuple[str, str]] = []
        for number, (tool, used, version) in enumerate(calls):
            call = RecordedCall(
                f"act_{number}", RecordedBinding("acme", "run_1", "bot", "cus_1"), tool, version, raw({})
            )
            usage = {"of_tenant": used} if tool == "send_money" else {}
            over = tool == "send_money" and used == 2
            made = RecordedDecision(
                "refuse" if over else "free",
                "of_tenant" if over else "as_it_was",
                "then",
                code="RATE_LIMITED" if over else None,
            )
            decided = Decided(made, raw({}), {}, usage=usage, run=RecordedRun())
            change = simulation.happened(Decision(NOON + timedelta(minutes=number), call, decided, complete=True))
            if change is not None:
                found.append((change.request_id, change.now.rule))
        return found

    now, sends = MANIFEST.version, ("send_money",)
    history = [("send_money", 0, now), (TOOL, 0, now), ("send_money", 2, now)]
    assert changes(*history, standing=sends) == [("act_1", "otherwise"), ("act_2", "otherwise")]
    assert changes(*history, standing=()) == [(f"act_{n}", "otherwise") for n in range(3)]
    assert changes(("send_money", 0, "0.0.1"), standing=sends) == [("act_0", "otherwise")]


def test_what_a_policy_says_of_a_tool_is_all_that_decides_its_calls() -> None:
    def same(then: str, now: str) -> set[str]:
        before, after = (sections_of(yaml.safe_load(text), KINDS) for text in (then, now))
        return {tool for tool in KINDS if before[tool] == after[tool]}

    assert same(ACROSS % "", ACROSS % "") == set(KINDS)
    assert same(ACROSS % "", ACROSS % ", without: [many]") == {TOOL}
    assert same(ACROSS % "", (ACROSS % "").replace("24h", "25h")) == set()
    assert same(ACROSS % "", (ACROSS % "").replace("turn > 1", "turn > 2")) == set()
    assert sections_of({"tools": []}, KINDS) == {}
