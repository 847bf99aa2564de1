"""What must not be possible with a tool, generated from its manifest and schema, is refused: for all built-in tools."""

from typing import Any

import pytest

from policy.load import DEFAULT_POLICY
from runtime.policy import load_checked
from runtime.testing import RedCase, ToolUnderTest
from runtime.testing.hostile import hostile_arguments
from schemas.codes import Code
from tests.tools.test_arguments import VALID
from tools.arguments import validate
from tools.catalog import Catalog
from tools.protocol import Arguments
from tools.texts import PRINTABLE, PRINTABLE_LINES

CATALOG = Catalog.load()
POLICY = load_checked(DEFAULT_POLICY, CATALOG)

_ORDER = {
    "order_id": "ord_8f2b91a04c7d",
    "status": "delivered",
    "placed_at": "2026-01-02T03:04:05Z",
    "age_minutes": 100_000,
    "disputed": False,
    "version": 1,
    "currency": "USD",
}
_CHANGE: dict[str, Any] = {"order": _ORDER, "customer": {"fraud_flag": False}}
_PAYMENT = {
    "payment_id": "pay_1",
    "method": "card",
    "last4": "4242",
    "captured_cents": 50_000,
    "refunded_cents": 0,
    "disputed": False,
}
FACTS: dict[str, dict[str, Any]] = {
    "issue_refund": {**_CHANGE, "payment": _PAYMENT, "paid_cents": 50_000, "refundable_cents": 50_000},
    "cancel_order": _CHANGE,
    "change_shipping_address": _CHANGE,
    "reinstate_order": _CHANGE,
}


def under_test(name: str, catalog: Catalog = CATALOG) -> ToolUnderTest:
    entry = CATALOG.get(name)
    assert entry is not None
    return ToolUnderTest(entry, catalog, POLICY)


CASES = [(name, case) for name in VALID for case in under_test(name).red_cases(VALID[name], FACTS.get(name))]


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[f"{name}: {case}" for name, case in CASES])
def test_what_must_not_be_possible_is_refused(case: RedCase) -> None:
    case.check()


def test_every_kind_of_case_is_there() -> None:
    names = {case.name for name, case in CASES if name in ("issue_refund", "change_shipping_address")}
    assert names >= {
        "an unknown argument",
        "customer_id as an argument",
        "tenant as an argument",
        "actor_id as an argument",
        "idempotency_key left out",
        "order_id with look-alike digits",
        "amount_cents over its maximum",
        "amount_cents under its minimum",
        "amount_cents as a boolean",
        "amount_cents as a whole number with a point",
        "amount_cents as null",
        "reason_code that is none of those there are",
        "note that is too long",
        "an unknown field in address",
        "address.city left out",
        "address.country as a number",
        "a run that was not opened with it",
        "a run that names it although it is internal",
        "the switch tool:issue_refund is off",
        "the switch class:money_movement is off",
        "the switch vault is off",
        "blast_radius left out of the manifest",
        "a policy that does not name it",
    }


@pytest.mark.parametrize(
    ("pattern", "is_tried"),
    [("^[0-9]+$", True), ("^[0-9]+", True), (PRINTABLE, True), (PRINTABLE_LINES, False), ("^[0-9\n]+$", False)],
)
def test_a_line_break_is_hostile_where_the_pattern_means_none(pattern: str, is_tried: bool) -> None:
    schema = {"properties": {"text": {"type": "string", "pattern": pattern}}}
    tried = {name for name, _ in hostile_arguments(schema, {"text": "1"})}
    assert ("text with a line break after it" in tried) is is_tried
    assert "text with an invisible character after it" in tried


class Careless(Catalog):
    """Takes whatever it is given."""

    def validate_arguments(self, name: str, arguments: Any) -> Any:
        taken = validate(Arguments, {})
        assert isinstance(taken, Arguments)
        return taken


def test_a_case_fails_where_the_thing_is_possible() -> None:
    careless = under_test("issue_refund", Careless(CATALOG.all()))
    by_name = {case.name: case for case in careless.red_cases(VALID["issue_refund"])}
    for name in ("an unknown argument", "amount_cents over its maximum", "idempotency_key left out"):
        with pytest.raises(AssertionError, match=f"{name}: is taken"):
            by_name[name].check()
    with pytest.raises(AssertionError, match="the example is not taken either"):
        under_test("issue_refund").red_cases({})[0].check()


def test_a_case_fails_where_it_is_refused_in_another_way() -> None:
    case = under_test("issue_refund").red_cases(VALID["issue_refund"])[0]
    with pytest.raises(AssertionError, match="INVALID_INPUT instead of TOOL_NOT_AVAILABLE"):
        RedCase(case.name, frozenset((Code.TOOL_NOT_AVAILABLE,)), case.attempt).check()


def test_what_the_policy_says_is_asked_without_a_database() -> None:
    refunds = under_test("issue_refund")
    call, facts = VALID["issue_refund"], FACTS["issue_refund"]
    assert refunds.decide(call, facts).verdict == "notify"
    assert refunds.decide(call, facts, customer_24h=20_000).rule == "customer_24h"
    assert refunds.decide(call, facts | {"refundable_cents": 1}).rule == "exceeds_available"
    assert refunds.decide(call | {"currency": "EUR"}, facts).code is Code.CURRENCY_MISMATCH
    assert "over_threshold" in refunds.rules
    assert under_test("lookup_orders").decide({}).verdict == "free"
