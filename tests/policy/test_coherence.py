"""Rules that can never decide, and rules that meet, are named; and nothing is said that is not certain."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.conditions import Reads, compile_condition
from policy.formulas import negated, read_formula
from policy.load import load_policy
from policy.solving import can_hold
from policy.values import nested
from policy.vocabulary import Domain
from tests.policy.refunds import Write
from tests.policy.texts import HEAD, VOCABULARIES, problems


def policy(*rules: str, thresholds: str = "{}", limits: Sequence[str] = (), otherwise: str = "notify") -> str:
    lines = [f"    thresholds: {thresholds}", f"    limits: [{', '.join(limits)}]", "    rules:"]
    return "\n".join((HEAD.rstrip(), *lines, *(f"      - {rule}" for rule in rules), f"    otherwise: {otherwise}\n"))


def refuse(name: str, when: str, code: str = "NOT_REFUNDABLE") -> str:
    return f"{{name: {name}, refuse: {code}, when: {when!r}, because: so it is}}"


def hold(name: str, when: str, group: str = "finance", more: str = "") -> str:
    return f"{{name: {name}, hold: {group}, when: {when!r}, because: so it is{more}}}"


def warnings(write: Write, text: str) -> list[str]:
    return [f"{each.where}: {each.what}" for each in load_policy(write(text), VOCABULARIES).warnings]


AMOUNT = "args.amount_cents"
STATUS = "facts.order.status"


@pytest.mark.parametrize(
    "when",
    [
        "false",
        f"{AMOUNT} > 10 && {AMOUNT} < 11",
        f"{AMOUNT} + facts.order.age_minutes > 10 && {AMOUNT} < 3 && facts.order.age_minutes < 3",
        f'{STATUS} == "open" && {STATUS} == "shipped"',
        f'{STATUS} in ["open", "shipped"] && !({STATUS} in ["shipped", "open", "lost"])',
        "facts.order.disputed && !facts.order.disputed",
        "facts.order.disputed == false && (facts.order.disputed || false)",
        f"{AMOUNT} * 2 == 7",
        f"size(facts.order.tags) > 3 && {AMOUNT} > 4 && {AMOUNT} <= 4",
        "size(facts.order.tags) > 3 && !(size(facts.order.tags)  > 3)",
    ],
)
def test_what_can_never_be_true(write: Write, when: str) -> None:
    expected = "issue_refund / one / when: can never be true; put the condition right, or leave the rule out"
    assert problems(write(policy(hold("one", when)))) == [expected]
    assert problems(write(policy(refuse("one", when)))) == [expected]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("true", f"{AMOUNT} > 5"),
        (f"{AMOUNT} > 5", f"{AMOUNT} > 5"),
        (f"{AMOUNT} > 5", f"{AMOUNT} >= 6 && facts.order.disputed"),
        (f'{STATUS} != "open"', f'{STATUS} in ["shipped", "lost"]'),
        (f'!({STATUS} in ["open", "lost"])', f'{STATUS} == "shipped"'),
        ("facts.order.disputed || facts.order.age_minutes < 3", "facts.order.age_minutes < 1"),
        ("size(facts.order.tags) > 3", "size(facts.order.tags) > 3"),
        (f"{AMOUNT} + facts.order.age_minutes > 5", f"{AMOUNT} > 5 && facts.order.age_minutes > 0"),
    ],
)
def test_what_is_refused_before(write: Write, first: str, second: str) -> None:
    never = "issue_refund / two / when: never decides: wherever it is true, one refuses"
    assert problems(write(policy(refuse("one", first), refuse("two", second)))) == [
        f"{never}; put it before one, or leave the rule out"
    ]
    # Refuse rules are asked first, wherever they stand.
    assert problems(write(policy(hold("two", second), refuse("one", first)))) == [
        f"{never}; narrow one, or leave the rule out"
    ]


def test_what_several_refuse_together(write: Write) -> None:
    text = policy(
        refuse("one", f"{AMOUNT} > 5"), refuse("two", f"{AMOUNT} < 10"), hold("three", "facts.order.disputed")
    )
    never = "never decides: wherever it is true, one of one, two refuses; narrow them, or leave the rule out"
    assert problems(write(text)) == [f"issue_refund / three / when: {never}"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (f"{AMOUNT} > 6", f"{AMOUNT} > 5"),
        # What may be missing has no answer then, and refuses nothing.
        ('facts.order.nickname != "x"', 'facts.order.nickname != "x" && facts.order.disputed'),
        ("size(facts.order.tags) > 3", "size(facts.order.tags) > 4"),
        (f'{STATUS}.startsWith("o")', f'{STATUS} == "open"'),
        (f'{STATUS} in ["open"]', f'{STATUS} == "lost"'),
        ("facts.order.disputed ? true : false", "facts.order.disputed"),
        ("facts.order.tags.exists(each, each == 'a')", "facts.order.disputed"),
        (f"{AMOUNT} * facts.order.age_minutes > 0", f"{AMOUNT} > 0 && facts.order.age_minutes > 0"),
        ("args.note == 'a'", "args.note == 'a' && facts.order.disputed"),
    ],
)
def test_what_cannot_be_told_or_is_not_so_is_not_said(write: Write, first: str, second: str) -> None:
    assert warnings(write, policy(refuse("one", first), refuse("two", second))) == []


def test_thresholds_out_of_order(write: Write) -> None:
    four_eyes = hold("four_eyes", f"{AMOUNT} > thresholds.two_cents", more=", people: 2")
    rules = (hold("over", f"{AMOUNT} > thresholds.one_cents"), four_eyes)
    assert warnings(write, policy(*rules, thresholds="{one_cents: 10, two_cents: 20}")) == []
    assert warnings(write, policy(*rules, thresholds="{one_cents: 10, two_cents: 10}")) == []
    assert problems(write(policy(*rules, thresholds="{one_cents: 20, two_cents: 10}"))) == [
        "issue_refund / thresholds / two_cents: is 10, and thresholds.one_cents is 20, so that over asks for nothing"
        " wherever it holds that four_eyes does not ask for; exchange the two"
    ]


def test_whoever_is_never_asked(write: Write) -> None:
    one, two = hold("one", f"{AMOUNT} > 5"), hold("two", f"{AMOUNT} > 6", "legal")
    what = (
        "legal is never asked: wherever the rule holds, one does too and stands first, so finance is; put it before one"
    )
    assert problems(write(policy(one, two))) == [f"issue_refund / two / hold: {what}"]
    stricter = hold("two", f"{AMOUNT} > 6", "legal", ", people: 2")
    assert warnings(write, policy(one, stricter)) == [f"issue_refund / two / hold: {what}"], "two people are asked for"
    same = hold("two", f"{AMOUNT} > 6")
    assert warnings(write, policy(one, same)) == [
        "issue_refund / two: never decides: wherever it holds, one does too, stands first and asks for as much;"
        " leave it out, or let it ask for more"
    ]
    assert warnings(write, policy(hold("two", f"{AMOUNT} > 6"), one)) == []


def test_rules_that_meet_are_named_with_an_example(write: Write) -> None:
    one, two = hold("one", f"{AMOUNT} > 500"), hold("two", "facts.order.disputed", "legal")
    assert warnings(write, policy(one, two)) == [
        "issue_refund / two: holds where one does too, e.g. where args.amount_cents is 501 and facts.order.disputed is"
        " true: one stands first, so the call waits for finance (24h) and not for legal (24h)"
    ]
    apart = refuse("no", f"facts.order.disputed && {AMOUNT} > 20")
    assert warnings(write, policy(apart, one, two)) == [], "what both hold is refused"
    assert warnings(
        write, policy(refuse("one", f"{AMOUNT} > 5"), refuse("two", STATUS + ' == "x"', "UNSAFE_CHAIN"))
    ) == [
        "issue_refund / two: applies where one does too, e.g. where args.amount_cents is 6 and facts.order.status is x:"
        " one stands first, so the agent is told NOT_REFUNDABLE and not UNSAFE_CHAIN"
    ]


def test_what_always_applies_leaves_nothing_to_the_rest(write: Write) -> None:
    expected = "issue_refund / otherwise: no call gets as far as free: one applies to each"
    assert warnings(write, policy(hold("one", "true"), otherwise="free")) == [expected]


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        (("per: run, max: 5", "per: run, max: 9"), "two"),
        (("per: run, max: 9", "per: run, max: 5"), "one"),
        (("per: run, max: 5", "per: run, max: 5"), "two"),
        (("per: run, window: 1h, max: 9", "per: agent, window: 24h, max: 9"), "one"),
        (("per: customer, window: 1h, max: 9, of: amount", "per: tool, max: 9, of: amount"), "one"),
        (("per: run, window: 24h, max: 9", "per: run, window: 1h, max: 5"), None),
        (("per: customer, max: 9", "per: agent, max: 5"), None),
        (("per: run, max: 9", "per: run, max: 5, of: amount"), None),
        (("per: run, max: 5", "per: agent, max: 9"), None),
    ],
)
def test_limits_that_never_decide(write: Write, limits: tuple[str, str], named: str | None) -> None:
    one, two = limits
    path = write(
        policy(hold("rule", "facts.order.disputed"), limits=(f"{{name: one, {one}}}", f"{{name: two, {two}}}"))
    )
    if named is None:
        assert load_policy(path, VOCABULARIES).warnings == ()
        return
    (problem,) = problems(path)
    other = {"one": "two", "two": "one"}[named]
    assert problem.startswith(f"issue_refund / {named}: never refuses what {other} does not refuse too: ")


# Conditions at random, over values few enough to try them all.
VALUES: dict[str, Sequence[int | str | bool]] = {
    "args.a": range(4),
    "args.b": range(4),
    "args.c": ["x", "y", "z"],
    "args.d": [True, False],
}
KINDS = {"args.a": "integer", "args.b": "integer", "args.c": "text", "args.d": "boolean"}
DOMAINS = {name: Domain(0, 3) for name in ("args.a", "args.b")} | {"args.c": Domain(choices=("x", "y", "z"))}

_numbers = st.integers(-1, 5)
_sums = st.one_of(
    st.sampled_from(
        ["args.a", "args.b", "args.a + args.b", "args.a - args.b", "2 * args.a - 3 * (args.b - 1)", "-args.a"]
    )
)
_relations = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
_atoms = st.one_of(
    st.builds(lambda left, how, right: f"{left} {how} {right}", _sums, _relations, st.one_of(_sums, _numbers.map(str))),
    st.builds(lambda how, text: f"args.c {how} '{text}'", st.sampled_from(["==", "!="]), st.sampled_from("xyzw")),
    st.sampled_from(
        ["args.d", "!args.d", "args.d == false", 'args.c in ["x", "y"]', "args.a in [1, 7]", "true", "false"]
    ),
)
_conditions = st.recursive(
    _atoms,
    lambda parts: st.one_of(
        st.builds(lambda one, two: f"({one}) && ({two})", parts, parts),
        st.builds(lambda one, two: f"{one} || {two}", parts, parts),
        parts.map(lambda part: f"!({part})"),
        parts.map(lambda part: f"(args.d ? {part} : false)"),
    ),
    max_leaves=5,
)


@given(_conditions)
def test_what_is_said_of_a_condition_is_what_evaluating_it_says(source: str) -> None:
    condition = compile_condition(source)
    reads = Reads([condition])
    answers = {
        condition.holds(reads.context(nested(dict(zip(VALUES, values, strict=True)))))
        for values in product(*VALUES.values())
    }
    formula = read_formula(source, KINDS, {})
    # What cannot be reasoned about is taken as possible; apart from that nothing is left out.
    exact = "?" not in source
    assert (
        (can_hold([formula], DOMAINS) == (True in answers))
        if exact
        else (True not in answers or can_hold([formula], DOMAINS))
    )
    opposite = can_hold([negated(formula)], DOMAINS)
    assert (opposite == (False in answers)) if exact else (False not in answers or opposite)
