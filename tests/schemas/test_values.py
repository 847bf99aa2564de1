"""The values that cross borders: strict, closed, exact, and the same bytes wherever they are hashed."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from schemas.calls import ToolCallInput
from schemas.canonical import canonical, digest
from schemas.codes import Code
from schemas.decisions import SignedDecision
from schemas.effects import Effect
from schemas.events import EVENT, CallSettled, EffectIntended
from schemas.ids import (
    is_approval_id,
    is_request_id,
    key_hash,
    new_approval_id,
    new_gateway_key,
    new_operation_id,
    new_request_id,
    new_run_id,
    workflow_id,
)
from schemas.money import Money, exponent
from schemas.strict_json import UnreadableError, loads

NAMES = st.text(max_size=5)
SCALARS = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=8)
JSON = st.recursive(SCALARS, lambda each: st.lists(each, max_size=3) | st.dictionaries(NAMES, each, max_size=3))


@pytest.mark.parametrize(
    ("amount", "currency", "text"),
    [
        (4_999, "USD", "49.99 USD"),
        (5, "EUR", "0.05 EUR"),
        (0, "GBP", "0.00 GBP"),
        (500, "JPY", "500 JPY"),
        (1_234, "KWD", "1.234 KWD"),
        (10**15, "USD", "10000000000000.00 USD"),
    ],
)
def test_money_is_exact_in_its_currencys_own_places(amount: int, currency: str, text: str) -> None:
    money = Money(amount=amount, currency=currency)
    assert str(money) == text
    assert money.decimal * Decimal(10) ** exponent(currency) == amount


@pytest.mark.parametrize("amount", [1.0, 49.99, "4999", True, None, -1, Decimal(1)])
def test_nothing_but_a_whole_amount_is_money(amount: Any) -> None:
    with pytest.raises(ValidationError):
        Money(amount=amount, currency="USD")


@pytest.mark.parametrize("currency", ["usd", "US", "USDX", "", "U5D", "ＵＳＤ", "USD\n"])
def test_a_currency_is_three_capital_letters(currency: str) -> None:
    with pytest.raises(ValidationError):
        Money(amount=1, currency=currency)


def test_a_value_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Money(amount=1, currency="USD").amount = 2  # pyright: ignore[reportAttributeAccessIssue]


GOOD_INPUT: dict[str, Any] = {
    "run_id": "run_" + "0" * 32,
    "tool": "issue_refund",
    "request_id": "act_" + "0" * 32,
    "arguments": {"amount_cents": 1},
}


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": "run_1"},
        {"run_id": "run_" + "0" * 31 + "\n"},
        {"request_id": "act_" + "G" * 32},
        {"request_id": "apr_" + "0" * 32},
        {"request_id": "act_" + "0" * 32 + "\0"},
        {"tool": 1},
        {"arguments": []},
        {"tenant": "acme"},
        {"run_id": None},
    ],
)
def test_a_workflows_input_is_closed_and_its_ids_have_their_form(change: dict[str, Any]) -> None:
    assert ToolCallInput.model_validate(GOOD_INPUT).tool == "issue_refund"
    with pytest.raises(ValidationError):
        ToolCallInput.model_validate(GOOD_INPUT | change)


@pytest.mark.parametrize("content", [None, "approve", {}, {"token": "t"}, [], 1])
def test_a_signed_decision_is_not_anything_else(content: Any) -> None:
    with pytest.raises(ValidationError):
        SignedDecision.model_validate(content)


def test_ids_are_random_and_know_their_own_form() -> None:
    makers = (new_request_id, new_run_id, new_approval_id, new_operation_id, new_gateway_key)
    made = [maker() for maker in makers for _ in range(100)]
    assert len(set(made)) == len(made)
    assert all(len(each.partition("_")[2]) == 32 for each in made)
    assert is_request_id(new_request_id())
    assert not is_request_id(new_approval_id())
    assert is_approval_id(new_approval_id())
    for odd in ("", "\0", new_approval_id() + "\n", new_approval_id().upper(), " " + new_approval_id()):
        assert not is_approval_id(odd)


def test_a_workflow_id_shows_the_key_by_its_hash_alone() -> None:
    key = "0f" * 16
    made = workflow_id("acme", "issue_refund", key_hash(key))
    assert made == f"call/acme/issue_refund/{key_hash(key)}"
    assert key not in made
    assert len(key_hash(key)) == 64


@given(JSON)
def test_the_canonical_form_does_not_depend_on_the_order_of_names(value: JsonValue) -> None:
    shuffled = json.loads(json.dumps(value), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    assert canonical(shuffled) == canonical(value)
    assert digest(shuffled) == digest(value)


@given(JSON)
def test_the_canonical_form_is_strict_json_of_the_same_value(value: JsonValue) -> None:
    assert loads(canonical(value)) == value


@given(JSON)
def test_the_canonical_form_is_that_of_the_reference(value: JsonValue) -> None:
    """Whichever way it is written."""
    assert canonical(value) == rfc8785.dumps(cast(Any, value))


@pytest.mark.parametrize(
    "value",
    [
        {"\U0001f600": 1, "\uff21": 2, "a": 3},
        {"a\x7f\u2028": "\x7f\u2028\x1f/"},
        [True, 1, 0, False],
        [2**53 - 1],
        [],
        {},
        "",
    ],
)
def test_the_canonical_form_is_that_of_the_reference_at_the_edges(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("value", ["\ud800", {"a": ["\udfff"]}, {1: "a"}, [2**53], {"a": object()}])
def test_what_has_no_canonical_form_is_not_hashed(value: Any) -> None:
    with pytest.raises(rfc8785.CanonicalizationError):
        canonical(value)


def test_the_canonical_form_is_that_of_the_rfc() -> None:
    """RFC 8785, 3.2.2 and 3.2.3."""
    value: JsonValue = {
        "string": '€$\u000f\nA\'B"\\\\"/',
        "literals": [None, True, False],
        "\r": "Carriage Return",
        "1": "One",
        "€": "Euro Sign",
    }
    expected = (
        '{"\\r":"Carriage Return","1":"One","literals":[null,true,false],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/","€":"Euro Sign"}'
    )
    assert canonical(value).decode() == expected


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, float("nan"), float("inf"), 0.1, 1.0, {"a": [{"b": -0.0}]}])
def test_what_others_would_read_differently_is_not_hashed(value: Any) -> None:
    with pytest.raises(ValueError, match=r"float|representable|exceeds|bounds"):
        canonical(value)


@given(JSON)
def test_strict_json_reads_what_json_writes(value: JsonValue) -> None:
    assert loads(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"a": 1, "a": 1}',
        b'{"a": {"b": 1, "b": 2}}',
        b'[{"a": 1, "\\u0061": 2}]',
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b"1e999",
        b"9" * 5_000,
        b"\xff",
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b"{'a': 1}",
        b"[1,]",
        b"01",
        b"1 2",
    ],
)
def test_what_is_ambiguous_or_unreadable_is_refused_without_a_word_of_it(body: bytes) -> None:
    with pytest.raises(UnreadableError) as refused:
        loads(body)
    assert body[:10].decode("latin-1") not in str(refused.value) or len(body) < 2


def test_an_event_comes_back_as_it_was_stored() -> None:
    effect = Effect(
        request_id="act_1",
        tool="issue_refund",
        operation_id="op_1",
        gateway_key="key_1",
        target={"amount_cents": 4_999},
        intended_at=datetime(2026, 11, 29, 8, 0, 0, 123_456, tzinfo=UTC),
    )
    for event in (
        EffectIntended(effect=effect, policy_version="default@1", facts={"order": {"disputed": False}}),
        CallSettled(status="executed", code=Code.OK),
    ):
        assert EVENT.validate_json(canonical(event.model_dump(mode="json"))) == event


@pytest.mark.parametrize("change", [{"type": "effect.imagined"}, {"amount": 1}, {"policy_version": 1}])
def test_what_is_no_event_is_not_read_as_one(change: dict[str, Any]) -> None:
    good = {"type": "approval.expired", "approval_id": "apr_1"}
    assert EVENT.validate_json(json.dumps(good)).type == "approval.expired"
    with pytest.raises(ValidationError):
        EVENT.validate_json(json.dumps(good | change))
