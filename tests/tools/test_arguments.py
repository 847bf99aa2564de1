"""Arguments are taken strictly, and a refusal names what the schema knows and nothing of what was sent."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from schemas.codes import REGISTRY, Code
from tools.catalog import Catalog
from tools.protocol import Arguments, Refusal

KEY = "0123456789abcdef0123456789abcdef"
REFUND: dict[str, Any] = {
    "order_id": "ord_8f2b91a04c7d",
    "amount_cents": 4_999,
    "currency": "USD",
    "reason_code": "damaged",
    "idempotency_key": KEY,
}
ADDRESS: dict[str, Any] = {"line1": "1 Example Street", "city": "Springfield", "postal_code": "10001", "country": "US"}
MOVE: dict[str, Any] = {"order_id": "ord_8f2b91a04c7d", "address": ADDRESS, "idempotency_key": KEY}
CANCEL: dict[str, Any] = {
    "order_id": "ord_8f2b91a04c7d",
    "reason_code": "no_longer_needed",
    "idempotency_key": KEY,
}
VALID: dict[str, dict[str, Any]] = {
    "issue_refund": REFUND,
    "change_shipping_address": MOVE,
    "cancel_order": CANCEL,
    "reinstate_order": {"order_id": "ord_8f2b91a04c7d", "idempotency_key": KEY},
    "lookup_orders": {},
    "get_refund_history": {"order_id": "ord_8f2b91a04c7d"},
    "get_refund_eligibility": {"order_id": "ord_8f2b91a04c7d", "amount_cents": 4_999},
    "lookup_account": {},
    "lookup_shipment": {"order_id": "ord_8f2b91a04c7d"},
    "search_help_articles": {"query": "return damaged item"},
    "draft_refund_request": {**REFUND, "amount_cents": 90_000},
    "submit_refund_for_approval": {
        "draft_id": "rfd_8f2b91a04c7d",
        "order_id": "ord_8f2b91a04c7d",
        "idempotency_key": KEY,
    },
    "issue_account_credit": {
        "amount_cents": 500,
        "currency": "USD",
        "reason_code": "late_delivery",
        "idempotency_key": KEY,
    },
    "create_ticket_reply_draft": {"ticket_id": "7001", "body": "A new lamp\nis on its way.", "idempotency_key": KEY},
    "post_approved_ticket_reply": {"draft_id": "7001-12", "idempotency_key": KEY},
    "reset_order": {"order_id": "ord_8f2b91a04c7d", "idempotency_key": KEY},
}


def refused(catalog: Catalog, tool: str, arguments: dict[str, JsonValue]) -> tuple[tuple[str, ...], str]:
    """The invalid fields and the whole sentence; a test fails when the arguments are taken."""
    outcome = catalog.validate_arguments(tool, arguments)
    assert isinstance(outcome, Refusal)
    assert outcome.code is Code.INVALID_INPUT
    fields = outcome.explanation.invalid_fields
    assert fields is not None
    return fields, REGISTRY[Code.INVALID_INPUT].message.format_map(outcome.explanation.values)


def test_every_tool_has_a_valid_example_here(catalog: Catalog) -> None:
    assert set(VALID) == {entry.manifest.name for entry in catalog.all()}


@pytest.mark.parametrize("tool", VALID)
def test_valid_arguments_are_taken(catalog: Catalog, tool: str) -> None:
    outcome = catalog.validate_arguments(tool, VALID[tool])
    assert isinstance(outcome, Arguments)
    assert outcome.model_dump(mode="json", exclude_defaults=True) == VALID[tool]


@pytest.mark.parametrize("amount", [True, False, "100", 100.0, 1e400, None, [100], {}, 99, 0, -100, 50_001, 10**30])
def test_an_amount_is_an_integer_in_range_and_nothing_like_it(catalog: Catalog, amount: Any) -> None:
    fields, sentence = refused(catalog, "issue_refund", REFUND | {"amount_cents": amount})
    if amount != 1e400:
        assert fields == ("amount_cents",)
        assert "amount_cents must be an integer from 100 to 50000." in sentence


@pytest.mark.parametrize("amount", [100, 50_000])
def test_the_ends_of_the_range_are_in_it(catalog: Catalog, amount: int) -> None:
    assert isinstance(catalog.validate_arguments("issue_refund", REFUND | {"amount_cents": amount}), Arguments)


@pytest.mark.parametrize(
    "order_id",
    [
        "ord_\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669\u0660\u0661\u0662",  # Arabic-Indic digits
        "ord_\uff18f2b91a04c7d",  # a full-width digit
        "ord_8f2b91\u0430" + "04c7d",  # a Cyrillic letter
        "ord_\U0001d7d88f2b91a04c7",  # a mathematical digit
        "ord_8f2b91a04c7d\n",
        " ord_8f2b91a04c7d",
        "ord_8f2b91a04c7d\u200b",
        "ord_8f2b91a04c7",
        "ord_8f2b91a04c7dd",
        "ORD_8f2b91a04c7d",
        "ord_8f2b91a04c/d",
        "ord_8f2b91a0\x004c7",
        "",
        7,
        None,
        ["ord_8f2b91a04c7d"],
    ],
)
@pytest.mark.parametrize("tool", ["issue_refund", "cancel_order", "change_shipping_address", "get_refund_history"])
def test_an_order_id_is_ascii_and_exact(catalog: Catalog, tool: str, order_id: Any) -> None:
    fields, sentence = refused(catalog, tool, VALID[tool] | {"order_id": order_id})
    assert fields == ("order_id",)
    assert "order_id must be text that matches ^ord_[0-9A-Za-z]{12}$." in sentence


@pytest.mark.parametrize("key", [KEY.upper(), KEY[:-1], KEY + "0", KEY[:-1] + "\u0660", KEY + "\n", None, 0])
def test_an_idempotency_key_is_32_lower_hex_digits(catalog: Catalog, key: Any) -> None:
    fields, _ = refused(catalog, "issue_refund", REFUND | {"idempotency_key": key})
    assert fields == ("idempotency_key",)


PROBLEMS: dict[str, tuple[str, dict[str, Any], tuple[str, ...], str]] = {
    "currency": (
        "issue_refund",
        REFUND | {"currency": "usd"},
        ("currency",),
        "currency must be one of USD, CAD, EUR, GBP",
    ),
    "long note": (
        "issue_refund",
        REFUND | {"note": "x" * 281},
        ("note",),
        "note must be text of at most 280 characters",
    ),
    "unknown field": (
        "issue_refund",
        REFUND | {"customer_id": "cus_1"},
        (),
        "it has a field that the tool's input_schema does not know",
    ),
    "no text": ("issue_refund", REFUND | {"note": "\ud800"}, (), "its arguments are not valid JSON text"),
    "not finite": (
        "issue_refund",
        REFUND | {"amount_cents": float("nan")},
        (),
        "its arguments are not valid JSON text",
    ),
    "limit": ("lookup_orders", {"limit": 21}, ("limit",), "limit must be an integer from 1 to 20"),
    "status": (
        "lookup_orders",
        {"status": "lost"},
        ("status",),
        "status must be one of open, shipped, delivered, cancelled or left out",
    ),
    "nested": (
        "change_shipping_address",
        MOVE | {"address": ADDRESS | {"city": 7}},
        ("address.city",),
        "address.city must be text of 1 to 80 characters that matches",
    ),
    "nested and optional": (
        "change_shipping_address",
        MOVE | {"address": ADDRESS | {"line2": "a\u202eb"}},
        ("address.line2",),
        "address.line2 must be text of 1 to 120 characters that matches",
    ),
    "nested unknown field": (
        "change_shipping_address",
        MOVE | {"address": ADDRESS | {"zip": "1"}},
        ("address",),
        "address has a field that the tool's input_schema does not know",
    ),
    "nested missing": (
        "change_shipping_address",
        MOVE | {"address": {key: value for key, value in ADDRESS.items() if key != "country"}},
        ("address.country",),
        "address.country is required and must be text that matches ^[A-Z]{2}$",
    ),
    "not an object": ("change_shipping_address", MOVE | {"address": []}, ("address",), "address must be an object"),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_a_refusal_says_what_would_fit(catalog: Catalog, case: str) -> None:
    tool, arguments, fields, problem = PROBLEMS[case]
    named, sentence = refused(catalog, tool, arguments)
    assert named == fields
    assert problem in sentence


def test_all_problems_are_named_at_once(catalog: Catalog) -> None:
    fields, sentence = refused(catalog, "issue_refund", {"amount_cents": 1, "evil": 1})
    assert set(fields) == {"order_id", "amount_cents", "currency", "reason_code", "idempotency_key"}
    assert "order_id is required and must be" in sentence
    assert sentence.count("does not know") == 1


# Long enough not to be in our own words by chance.
strange = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=8, max_size=12)


@settings(deadline=None)
@given(
    key=strange,
    value=strange | st.integers(10**9) | st.floats(allow_nan=False, allow_infinity=False, min_value=1e9),
    tool=st.sampled_from(["issue_refund", "change_shipping_address", "lookup_orders"]),
    field=st.sampled_from(["order_id", "amount_cents", "currency", "limit", "status", "reason_code"]),
)
def test_no_value_and_no_unknown_key_is_repeated(catalog: Catalog, key: str, value: Any, tool: str, field: str) -> None:
    for arguments in (VALID[tool] | {field: value, key: 1}, VALID[tool] | {"address": ADDRESS | {key: value}}):
        outcome = catalog.validate_arguments(tool, arguments)
        assert isinstance(outcome, Refusal)
        said = outcome.model_dump_json()
        assert json.dumps(key)[1:-1] not in said or key in str(catalog.describe(tool).input_schema)
        assert str(value) not in said


scalars = st.none() | st.booleans() | st.integers() | st.text()


@settings(deadline=None, max_examples=30)
@given(st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10))
def test_any_json_is_an_answer_and_never_an_exception(catalog: Catalog, value: Any) -> None:
    for tool, arguments in VALID.items():
        for field in (*arguments, "unknown"):
            outcome = catalog.validate_arguments(tool, arguments | {field: value})
            assert isinstance(outcome, Arguments | Refusal)
