"""Conditions over flat variables mean what they mean in CEL over nested values."""

from typing import Any

import cel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.conditions import Condition, ConditionError, Name, Reads, Together, compile_condition
from policy.values import Path

VALUES: dict[str, Any] = {
    "args": {"amount_cents": 4999, "note": "facts.order.status", "currency": "USD"},
    "facts": {
        "order": {"status": "open", "age_minutes": 10, "disputed": False, "tags": ["new", "gift"], "a_b": 1},
        "order_a": {"b": 2},
        "customer": {"fraud_flag": True, "nickname": None},
        "items": [{"price": 1}, {"price": 5}],
    },
    "totals": {"day": 7},
}

# A busy machine is no failure.
UNHURRIED = settings(deadline=None)


def holds(condition: Condition, values: dict[str, Any]) -> bool:
    return condition.holds(Reads([condition]).context(values))


SOURCES = [
    'facts.order.status == "open"',
    '!(facts.order.status in ["shipped", "delivered"])',
    'facts.order.status in ["shipped", facts.order.status]',
    "totals.day + args.amount_cents > 5005",
    "facts.order.age_minutes*2<21&&!facts.order.disputed",
    "facts.order.disputed || facts.customer.fraud_flag",
    'args.note == "facts.order.status"',
    "args.note == 'facts.order.status' // args.nope",
    'args.note.startsWith("facts.") && args.note.size() == 18',
    'size(args.currency) == 3 && args.currency.matches("^[A-Z]{3}$")',
    "has(facts.order.status) && !has(facts.order.nope)",
    "has( facts . order . status )",
    '"gift" in facts.order.tags',
    'facts.order.tags[1] == "gift"',
    "facts.items.exists(item, item.price > 4)",
    "facts.items.all(i, i.price < totals.day) && facts.items[1].price == 5",
    "facts.items.map(i, i.price * totals.day).exists(x, x == 35)",
    "facts.order.a_b == 1 && facts.order_a.b == 2",
    "facts.customer.nickname == null",
    "facts.order.disputed ? false : args.amount_cents >= 4999",
    "size(facts.order) == 5",
    r'"\"facts.order.nope" != args.note',
    "r'\\d' != args.note",
    "true",
    "1.5 < 2.0 && 0x1F == 31",
]


@pytest.mark.parametrize("source", SOURCES)
def test_flat_variables_change_no_answer(source: str) -> None:
    assert holds(compile_condition(source), VALUES) is cel.evaluate(source, VALUES)


@UNHURRIED
@given(amount=st.integers(-(2**63), 2**63 - 1), total=st.integers(-(2**63), 2**63 - 1))
def test_flat_variables_change_no_answer_for_any_integers(amount: int, total: int) -> None:
    source = "totals.day + args.amount_cents > 20000"
    values = {"args": {"amount_cents": amount}, "totals": {"day": total}}
    try:
        expected = cel.evaluate(source, values)
    except OverflowError:
        with pytest.raises(ConditionError):
            holds(compile_condition(source), values)
    else:
        assert holds(compile_condition(source), values) is expected


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        ('facts.order.status.startsWith("x")', {"facts.order.status"}),
        ("facts.items.exists(i, i.price > args.amount_cents)", {"facts.items", "args.amount_cents"}),
        ("\"facts.a\" == 'args.b' // totals.c", set[str]()),
        ("size(facts.a) in [1, totals.b]", {"facts.a", "totals.b"}),
        ("nope.x", {"nope.x"}),
        ("f(x)", {"x"}),
    ],
)
def test_what_a_condition_reads(source: str, reads: set[str]) -> None:
    assert {".".join(name.path) for name in compile_condition(source).reads} == reads


def test_presence_is_not_a_value() -> None:
    condition = compile_condition("has(facts.a) && facts.a")
    assert condition.reads == {Name(("facts", "a"), presence=True), Name(("facts", "a"), presence=False)}


STEPS = st.sampled_from(("a", "b", "_", "a_", "_1b", "a_1", "a_1b", "a__1b", "has", "_2a"))


@UNHURRIED
@given(paths=st.sets(st.lists(STEPS, min_size=1, max_size=3).map(tuple), max_size=20))
def test_no_two_names_are_one_variable(paths: set[tuple[str, ...]]) -> None:
    names = [Name(path, presence) for path in paths for presence in (False, True)]
    assert len({name.variable for name in names}) == len(names)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("facts.a >", "mismatched input '<EOF>' expecting"),
        ("facts.a = 1", "token recognition error at: '= '"),
        ("", "mismatched input '<EOF>' expecting"),
        ('"open', "token recognition error"),
        ("a b", "extraneous input 'b' expecting <EOF>"),
    ],
)
def test_what_is_not_cel_is_refused_with_a_reason(source: str, reason: str) -> None:
    with pytest.raises(ConditionError) as raised:
        compile_condition(source)
    assert str(raised.value).startswith(reason)


@pytest.mark.parametrize(
    "source",
    [
        "facts.order.nope",
        "facts.nope.status == 'open'",
        "facts.order.status > 1",
        "facts.order.status",
        "args.amount_cents",
        "facts.customer.nickname",
        "!args.amount_cents",
        "1 / 0 == 1",
        "args.amount_cents + 9223372036854775807 > 0",
        "unknown(args.note)",
        "facts.order.status.nope()",
        'args.note.matches("(")',
    ],
)
def test_no_answer_is_an_error(source: str) -> None:
    condition = compile_condition(source)
    with pytest.raises(ConditionError):
        holds(condition, VALUES)


def test_an_error_says_nothing_of_the_values() -> None:
    with pytest.raises(ConditionError) as raised:
        holds(compile_condition("args.note > 1"), VALUES)
    assert (str(raised.value), raised.value.__cause__, raised.value.__suppress_context__) == ("", None, True)


THRESHOLD: Path = ("thresholds", "most")


@pytest.mark.parametrize("most", [-(2**53) + 1, -1, 0, 20_000, 2**53 - 1])
@pytest.mark.parametrize(
    "source",
    [
        "args.amount_cents > thresholds.most",
        "args.amount_cents - thresholds.most < 5 && -thresholds.most < 7",
        "has(thresholds.most) && thresholds.most in [1, 20000]",
        "thresholds.most*2 > 3 // thresholds.most",
        'thresholds.mostly == "thresholds.most"',
    ],
)
def test_a_constant_changes_no_answer(source: str, most: int) -> None:
    values: dict[str, Any] = {"args": {"amount_cents": 4999}, "thresholds": {"most": most, "mostly": "thresholds.most"}}
    condition = compile_condition(source, {THRESHOLD: most})
    assert holds(condition, values) is cel.evaluate(source, values)
    assert Name(THRESHOLD, presence=False) not in condition.variables
    assert condition.reads == compile_condition(source).reads


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.sampled_from(("", "open", "shipped")), st.just([])
)
READ = ("args.amount_cents", "args.note", "facts.order.status", "facts.order.disputed", "totals.day")
ASKED = [
    compile_condition(source)
    for source in (
        *("args.amount_cents > 20000", "totals.day + args.amount_cents > 20000 // all of it", "facts.order.disputed"),
        *('facts.order.status in ["open"]', "args.amount_cents / totals.day > 1", "has(args.note) && args.note != ''"),
        *("args.amount_cents", "facts.order.disputed || totals.day > 0", "[1, 2].exists(n, n == args.amount_cents)"),
    )
]


@UNHURRIED
@given(
    values=st.fixed_dictionaries({}, optional=dict.fromkeys(READ, SCALARS)),
    chosen=st.lists(st.sampled_from(ASKED), max_size=9),
)
def test_together_they_answer_as_each_alone(values: dict[str, Any], chosen: list[Condition]) -> None:
    nested: dict[str, Any] = {"args": {}, "facts": {"order": {}}, "totals": {}}
    for name, value in values.items():
        node = nested
        *above, last = name.split(".")
        for step in above:
            node = node[step]
        node[last] = value
    context = Reads(chosen).context(nested)
    alone: list[bool | None] = []
    for condition in chosen:
        try:
            alone.append(condition.holds(context))
        except ConditionError:
            alone.append(None)
    assert Together(chosen).answers(context) == alone
