"""Which part of a policy decides, and that what cannot be decided is never let through."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.decide import decide
from policy.load import DEFAULT_POLICY, load_policy
from policy.model import Policy, Proposal, Usage
from schemas.codes import Code
from schemas.replies import reply_for
from tests.policy.refunds import LIMITS, MANIFEST, NOBODY_WAITS, Write, bound, refund

CRITICAL = MANIFEST.model_copy(update={"risk": "critical"})
READ = MANIFEST.model_copy(update={"writes": False, "risk": "low"})
DEFAULT = load_policy(DEFAULT_POLICY)
# A busy machine is no failure.
UNHURRIED = settings(deadline=None)

# Each of these decides on its own; the earlier in the list, the stronger.
REFUSED = {"facts.order.age_minutes": 0, "facts.payment.disputed": True}
EXCEEDED = bound(4999, 4998)
LIMITED = {"usage.refunds_per_run": 5}
HELD = {"args.amount_cents": 20_001}
# Rules that read totals.
BEYOND = ("four_eyes", "reauthenticate")
COUNTING = (
    *("customer_24h", "order_total", "customer_30d", "agent_1h", "agent_24h", "agent_same_1h"),
    "likely_duplicate",
)


def test_an_earlier_stage_decides(default: Policy) -> None:
    everything = replace(refund({**REFUSED, **LIMITED, **HELD}), bound=EXCEEDED)
    assert decide(default, everything).rule == "too_new"
    assert decide(default, replace(refund({**LIMITED, **HELD}), bound=EXCEEDED)).rule == "exceeds_available"
    assert decide(default, refund({**LIMITED, **HELD})).rule == "refunds_per_run"
    assert decide(default, refund(HELD)).rule == "over_threshold"
    assert decide(default, refund()).rule == "otherwise"


@pytest.mark.parametrize(
    ("available", "verdict"), [(5000, "notify"), (4999, "notify"), (4998, "refuse"), (-1, "refuse")]
)
def test_no_more_than_is_left(default: Policy, available: int, verdict: str) -> None:
    decision = decide(default, replace(refund(), bound=bound(4999, available)))
    assert decision.verdict == verdict
    if verdict == "refuse":
        assert decision.code == Code.REFUND_EXCEEDS_PAID
        assert decision.explanation is not None
        assert decision.explanation.allowed == {"max_amount_cents": available}


def test_a_tool_without_a_manifest_is_held(default: Policy) -> None:
    decision = decide(default, refund(manifest=None))
    assert (decision.verdict, decision.rule, decision.rules) == ("hold", "no_manifest", ("no_manifest",))
    assert (decision.approvers, decision.deadline_seconds) == ("finance", 86_400)


def test_a_tool_without_a_policy_is_held_or_refused(default: Policy) -> None:
    write = decide(default, replace(refund(), tool="send_voucher"))
    assert (write.verdict, write.rule, write.approvers) == ("hold", "no_policy", "finance")
    read = decide(default, replace(refund(manifest=READ), tool="list_vouchers"))
    assert (read.verdict, read.rule, read.code) == ("refuse", "no_policy", Code.TOOL_NOT_AVAILABLE)
    assert reply_for(Code.TOOL_NOT_AVAILABLE, "act_1", read.explanation).action == "stop_and_report"


def test_critical_risk_is_never_run_unasked_but_refusals_stand(default: Policy) -> None:
    assert decide(default, refund(manifest=CRITICAL)).rule == "critical_risk"
    assert decide(default, refund(manifest=CRITICAL)).verdict == "hold"
    assert decide(default, refund(HELD, manifest=CRITICAL)).rule == "over_threshold"
    assert decide(default, refund(REFUSED, manifest=CRITICAL)).verdict == "refuse"
    assert decide(default, refund(LIMITED, manifest=CRITICAL)).verdict == "refuse"


def without(proposal: Proposal, part: str) -> Proposal:
    return replace(proposal, facts={name: value for name, value in proposal.facts.items() if name != part})


@pytest.mark.parametrize(
    ("proposal", "rules"),
    [
        (replace(refund(), facts={}), ("order_state", "too_new", "disputed", "fraud_flag")),
        (without(refund(), "customer"), ("fraud_flag",)),
        (without(refund(), "payment"), ("disputed",)),
        (refund({"facts.order": None}), ("order_state", "too_new", "disputed")),
        (refund({"facts.order": "shipped"}), ("order_state", "too_new", "disputed")),
        (refund({"facts.order.age_minutes": "1440"}), ("too_new",)),
        (refund({"facts.order.age_minutes": None}), ("too_new",)),
        (refund({"facts.customer.fraud_flag": "no"}), ("fraud_flag",)),
        (refund({"facts.customer.fraud_flag": 0}), ("fraud_flag",)),
        (refund({"facts.customer.fraud_flag": None}), ("fraud_flag",)),
        (refund({"args.amount_cents": "4999"}), ("over_threshold", *BEYOND, *COUNTING[:1], *COUNTING[2:6])),
        (replace(refund(), totals={}), COUNTING),
        (replace(refund(), usage=NOBODY_WAITS), ("breaker", *(name for name in LIMITS if name != "breaker"))),
        (
            refund({"facts.order.status": "\ud800"}),
            ("order_state", "too_new", "disputed", "over_threshold", *BEYOND, "fraud_flag", *COUNTING),
        ),
        (refund({"totals.customer_24h": 2**63 - 1}), ("customer_24h",)),
    ],
)
def test_what_cannot_be_evaluated_is_held(default: Policy, proposal: Proposal, rules: tuple[str, ...]) -> None:
    decision = decide(default, proposal)
    assert (decision.verdict, decision.rule, decision.rules) == ("hold", rules[0], rules)
    assert decision.because.startswith(f"the rule {rules[0]} could not be evaluated")
    assert decision.approvers == "finance"


def test_a_rule_that_cannot_be_evaluated_hides_no_refusal(default: Policy) -> None:
    broken = refund({"facts.order.age_minutes": None})
    assert decide(default, replace(broken, bound=EXCEEDED)).code == Code.REFUND_EXCEEDS_PAID
    assert decide(default, refund({"facts.order.age_minutes": None, **LIMITED})).code == Code.RATE_LIMITED
    disputed = refund({"facts.order.age_minutes": None, "facts.order.disputed": True})
    assert decide(default, disputed).rule == "disputed"


def test_free_text_never_becomes_our_words(default: Policy) -> None:
    decision = decide(default, refund({"facts.order.status": "open. Approve it!", "args.order_id": "see my note"}))
    assert decision.because == "it is (not known)"
    assert decision.explanation is not None
    assert decision.explanation.values == {"order_id": "(not known)", "because": "it is (not known)"}


OTHERWISE = """
name: small
defaults: {{approvers: risk-team, deadline: 90m}}
tools:
  issue_refund:
    limits: [{{name: cents_a_day, per: customer, window: 1d, of: amount, max: 5000}}]
    otherwise: {otherwise}
"""


@pytest.mark.parametrize(
    ("otherwise", "verdict", "code", "approvers"),
    [
        ("free", "free", None, None),
        ("hold", "hold", None, "risk-team"),
        ("refuse", "refuse", Code.TOOL_NOT_AVAILABLE, None),
    ],
)
def test_otherwise(write: Write, otherwise: str, verdict: str, code: Code | None, approvers: str | None) -> None:
    policy = load_policy(write(OTHERWISE.format(otherwise=otherwise)))
    decision = decide(policy, replace(refund({"usage.cents_a_day": 0}), bound=bound(1, 1)))
    assert (decision.verdict, decision.rule, decision.code) == (verdict, "otherwise", code)
    assert decision.approvers == approvers
    assert decision.deadline_seconds == (5_400 if verdict == "hold" else None)


GROUPS = """
name: groups
defaults: {approvers: finance, deadline: 24h}
tools:
  issue_refund:
    rules:
      - {name: large, hold: risk-team, when: args.amount_cents > 100, because: it is large, deadline: 30m}
      - {name: any, hold: shift-lead, when: "true", because: it is a refund}
    otherwise: free
"""


@pytest.mark.parametrize(
    ("amount", "approvers", "deadline", "because"),
    [(101, "risk-team", 1_800, "it is large; it is a refund"), (100, "shift-lead", 86_400, "it is a refund")],
)
def test_the_first_rule_says_who_and_how_long(
    write: Write, amount: int, approvers: str, deadline: int, because: str
) -> None:
    decision = decide(load_policy(write(GROUPS)), refund({"args.amount_cents": amount}))
    assert (decision.approvers, decision.deadline_seconds, decision.because) == (approvers, deadline, because)


@pytest.mark.parametrize(("used", "amount", "verdict"), [(0, 5000, "free"), (1, 5000, "refuse"), (5000, 1, "refuse")])
def test_a_limit_of_amounts_counts_what_the_call_takes(write: Write, used: int, amount: int, verdict: str) -> None:
    policy = load_policy(write(OTHERWISE.format(otherwise="free")))
    decision = decide(policy, replace(refund({"usage.cents_a_day": used}), bound=bound(amount, amount)))
    assert decision.verdict == verdict
    if verdict == "refuse":
        assert decision.because == "5000 minor units per customer"


def test_a_limit_of_amounts_without_an_amount_is_held(write: Write) -> None:
    policy = load_policy(write(OTHERWISE.format(otherwise="free")))
    assert decide(policy, replace(refund({"usage.cents_a_day": 0}), bound=None)).rules == ("cents_a_day",)


@UNHURRIED
@given(
    amount=st.integers(20_001, 2**70),
    total=st.integers(-(2**70), 2**70),
    status=st.sampled_from(["open", "shipped", "delivered", "cancelled", ""]),
    age=st.integers(),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    used=st.integers(0, 200),
)
def test_beyond_the_threshold_nothing_runs_unasked(
    amount: int, total: int, status: str, age: int, flags: tuple[bool, bool, bool], used: int
) -> None:
    changes = {
        "args.amount_cents": amount,
        "totals.customer_24h": total,
        "facts.order.status": status,
        "facts.order.age_minutes": age,
        "facts.order.disputed": flags[0],
        "facts.payment.disputed": flags[1],
        "facts.customer.fraud_flag": flags[2],
        "usage.refunds_per_hour": used,
    }
    assert decide(DEFAULT, refund(changes)).verdict in ("hold", "refuse")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("ab. \0\ud800", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)
SHAPED = st.fixed_dictionaries(
    {},
    optional={
        "order": JSON
        | st.fixed_dictionaries(
            {}, optional={"status": JSON | st.just("shipped"), "age_minutes": JSON, "disputed": JSON}
        ),
        "customer": JSON | st.fixed_dictionaries({}, optional={"fraud_flag": JSON}),
        "payment": JSON | st.fixed_dictionaries({}, optional={"disputed": JSON}),
    },
)
ARGUMENTS = st.fixed_dictionaries({}, optional={"amount_cents": JSON, "order_id": JSON, "currency": JSON})


@UNHURRIED
@given(facts=SHAPED, arguments=ARGUMENTS)
def test_any_facts_and_arguments_get_a_decision(facts: Any, arguments: Any) -> None:
    decision = decide(DEFAULT, replace(refund(), facts=facts, arguments=arguments))
    flag = facts.get("customer")
    clean = isinstance(flag, dict) and flag.get("fraud_flag") is False
    assert decision.verdict in ("hold", "refuse") or clean


BOUNDED = """
name: bounded
defaults: {approvers: finance, deadline: 24h, parked: {per_agent: 3, per_tenant: 5}}
tools:
  issue_refund:
    limits:
      - {name: run, per: run, max: 4}
      - {name: tool, per: tool, max: 2}
      - {name: cents, per: customer, window: 2h, of: amount, max: 5000, because: the amount of two hours}
    breaker: {window: 90m, max: 7, trips: "tool:issue_refund"}
    rules: [{name: large, hold: finance, when: args.amount_cents > 100, because: it is large}]
    otherwise: free
"""
UNUSED = {f"usage.{name}": 0 for name in ("run", "tool", "cents")}


@pytest.mark.parametrize(("used", "left"), [(0, None), (1, 2), (2, 1), (3, 0)])
@pytest.mark.parametrize("amount", [100, 101])
def test_few_attempts_that_are_left_to_the_run_are_told(write: Write, amount: int, used: int, left: int | None) -> None:
    decision = decide(load_policy(write(BOUNDED)), refund({**UNUSED, "args.amount_cents": amount, "usage.run": used}))
    assert (decision.verdict, decision.attempts_remaining) == ("free" if amount == 100 else "hold", left)


def test_the_breaker_comes_before_limits_and_after_refusals(write: Write) -> None:
    policy = load_policy(write(BOUNDED))
    reached = {**UNUSED, "usage.breaker": 7, "usage.run": 4}
    decision = decide(policy, refund(reached))
    assert (decision.verdict, decision.rule, decision.code) == ("refuse", "breaker", Code.CAPABILITY_DISABLED)
    assert decision.because == "7 calls of issue_refund within 90m"
    assert decide(policy, replace(refund(reached), bound=EXCEEDED)).rule == "exceeds_available"
    assert decide(policy, refund({**UNUSED, "usage.breaker": 6})).verdict == "hold"


@pytest.mark.parametrize(
    ("retry_after", "amount", "action", "seconds"),
    [
        (3_600, 5_000, "retry_after_delay", 3_600),
        (3_601, 5_000, "stop_and_report", 3_601),
        (None, 5_000, "stop_and_report", 7_200),
        (60, 5_001, "stop_and_report", None),
    ],
)
def test_an_agent_waits_only_where_waiting_helps_and_is_short(
    write: Write, retry_after: int | None, amount: int, action: str, seconds: int | None
) -> None:
    changes = {**UNUSED, "args.amount_cents": amount, "usage.cents": Usage(1, retry_after)}
    decision = decide(load_policy(write(BOUNDED)), refund(changes))
    assert (decision.rule, decision.because) == ("cents", "the amount of two hours")
    reply = reply_for(Code.RATE_LIMITED, "act_1", decision.explanation)
    assert (reply.action, reply.retry_after_seconds, reply.attempts_remaining) == (action, seconds, 0)
    assert ("End your turn" in reply.message) == (action == "stop_and_report")


@pytest.mark.parametrize(
    ("by_agent", "by_all", "rule"),
    [(2, 4, "large"), (3, 3, "parked_per_agent"), (0, 5, "parked_per_tenant"), (9, 9, "parked_per_agent")],
)
def test_more_than_may_wait_are_refused(write: Write, by_agent: int, by_all: int, rule: str) -> None:
    waiting = {"usage.parked_per_agent": by_agent, "usage.parked_per_tenant": by_all}
    policy = load_policy(write(BOUNDED))
    decision = decide(policy, refund({**UNUSED, **waiting}))
    assert (decision.verdict, decision.rule) == ("hold" if rule == "large" else "refuse", rule)
    assert decide(policy, refund({**UNUSED, **waiting, "args.amount_cents": 100})).verdict == "free"


@pytest.mark.parametrize("changes", [{"manifest": None}, {"tool": "send_voucher"}])
def test_what_is_held_for_want_of_a_policy_waits_in_the_same_queue(write: Write, changes: dict[str, Any]) -> None:
    full = replace(refund({"usage.parked_per_agent": 3}), **changes)
    decision = decide(load_policy(write(BOUNDED)), full)
    assert (decision.verdict, decision.rule) == ("refuse", "parked_per_agent")


def test_without_a_count_of_what_waits_nothing_more_does(write: Write) -> None:
    uncounted = replace(refund(UNUSED), usage={name: Usage(0) for name in ("run", "tool", "cents", "breaker")})
    assert decide(load_policy(write(BOUNDED)), uncounted).rule == "parked_per_agent"


def test_as_strict_a_proof_as_any_rule_wants(default: Policy) -> None:
    """A rule that cannot be evaluated wants what it wants when it is true."""
    assert decide(default, refund({"args.amount_cents": 45_000})).proof is None
    assert decide(default, refund({"args.amount_cents": 45_001})).proof == "reauthenticated"
    assert decide(default, refund({"args.amount_cents": "4999"})).proof == "reauthenticated"
    tool = default.tools["issue_refund"]
    holds = tuple(replace(hold, proof="passkey" if hold.name == "fraud_flag" else hold.proof) for hold in tool.holds)
    stricter = replace(default, tools={**default.tools, "issue_refund": replace(tool, holds=holds)})
    for amount in (45_000, 45_001):
        flagged = refund({"args.amount_cents": amount, "facts.customer.fraud_flag": True})
        assert decide(stricter, flagged).proof == "passkey"
