"""Conditions that are answered without CEL say what CEL says, of whatever values."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.conditions import Condition, ConditionError, Reads, Together, compile_condition
from policy.formulas import read_formula
from policy.plain import Whens
from policy.vocabulary import Kind
from tests.policy.test_conditions import UNHURRIED

KINDS: dict[str, Kind] = {
    "args.amount_cents": "integer",
    "args.currency": "text",
    "facts.order.status": "text",
    "facts.order.age_minutes": "integer",
    "facts.order.disputed": "boolean",
    "facts.customer.fraud_flag": "boolean",
    "run.touched": "list",
    "totals.day": "integer",
}
NUMBERS = {"thresholds.most": 70}
PLAIN = (
    *("args.amount_cents > thresholds.most", "totals.day + args.amount_cents > thresholds.most"),
    *("totals.day >= 3 * args.amount_cents && totals.day + args.amount_cents > 70", "totals.day == 0"),
    *("totals.day - args.amount_cents + facts.order.age_minutes < 9", "!(totals.day != args.amount_cents)"),
    *('!(facts.order.status in ["shipped", "delivered"])', 'facts.order.status != "open"'),
    *("facts.order.disputed || facts.customer.fraud_flag", "facts.order.disputed == false", "!facts.order.disputed"),
    *('args.currency == "USD" && (facts.order.disputed || totals.day > 5 || facts.customer.fraud_flag)', "70 < 9"),
)
OTHERS = (
    *('"read_private" in run.touched', "args.amount_cents / totals.day > 1", 'args.currency.startsWith("U")'),
    *("has(args.amount_cents) && args.amount_cents > 3", "facts.order.status == args.currency", "args.note == 'x'"),
)
ODD = (
    *(2**48, 2**48 + 1, 2**63 - 1, 2**63, -(2**63), 2**80, "ü", "\ud800", "7", "true"),
    *(0, True, None, 1.5, [], ["read_private"], {}),
)
OF_KIND: dict[Kind, st.SearchStrategy[Any]] = {
    "integer": st.integers(0, 80),
    "text": st.sampled_from(("open", "shipped", "USD")),
    "boolean": st.booleans(),
    "list": st.sampled_from(([], ["read_private"])),
}


def condition(source: str) -> Condition:
    return compile_condition(source, {tuple(name.split(".")): value for name, value in NUMBERS.items()})


def whens(*sources: str) -> Whens:
    return Whens([condition(each) for each in sources], [read_formula(each, KINDS, NUMBERS) for each in sources])


def of_cel(sources: list[str], values: dict[str, Any]) -> list[bool | None]:
    conditions = [condition(each) for each in sources]
    try:
        return Together(conditions).answers(Reads(conditions).context(values))
    except ConditionError:
        return [None] * len(sources)


def as_tree(values: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *above, last = name.split(".")
        node = tree
        for step in above:
            node = node.setdefault(step, {})
        node[last] = value
    return tree


@pytest.fixture
def no_cel(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(*_: object) -> None:
        raise AssertionError("it was asked")

    monkeypatch.setattr("policy.conditions.Together.answers", unwanted)


ORDINARY: dict[Kind, Any] = {"integer": 7, "text": "open", "boolean": True, "list": [], "other": None}


@pytest.mark.usefixtures("no_cel")
@pytest.mark.parametrize("source", PLAIN)
def test_comparisons_do_without_cel(source: str) -> None:
    values = as_tree({name: ORDINARY[kind] for name, kind in KINDS.items()})
    assert whens(source).answers(values) != [None]


@pytest.mark.usefixtures("no_cel")
@pytest.mark.parametrize("source", OTHERS)
def test_what_is_more_is_left_to_it(source: str) -> None:
    values = as_tree({name: ORDINARY[kind] for name, kind in KINDS.items()})
    with pytest.raises(AssertionError, match="it was asked"):
        whens(source).answers(values)


@UNHURRIED
@given(st.fixed_dictionaries({name: OF_KIND[kind] for name, kind in KINDS.items()}))
def test_they_are_answered_as_by_cel(named: dict[str, Any]) -> None:
    values, sources = as_tree(named), [*PLAIN, *OTHERS]
    assert whens(*sources).answers(values) == of_cel(sources, values)


@pytest.mark.parametrize("odd", [*ODD, "missing"], ids=repr)
@pytest.mark.parametrize("name", KINDS)
def test_so_they_are_of_odd_values(name: str, odd: object) -> None:
    named = {each: ORDINARY[kind] for each, kind in KINDS.items()} | {name: odd}
    if odd == "missing":
        del named[name]
    values, sources = as_tree(named), [*PLAIN, *OTHERS]
    assert whens(*sources).answers(values) == of_cel(sources, values)
    for each in PLAIN:
        assert whens(each).answers(values) == of_cel([each], values)


@pytest.mark.parametrize("facts", [None, [], "shipped", {"order": None}, {"order": ["status"]}])
def test_what_is_no_object_has_no_names(facts: object) -> None:
    assert whens("facts.order.disputed", "totals.day > 1").answers({"facts": facts, "totals": {"day": 2}}) == [
        None,
        True,
    ]
