"""What Stripe's answers mean: tables and properties, without a network."""

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateways import stripe_wire as wire
from gateways.border import read
from gateways.protocols import RefundRequest
from gateways.stripe import judge, named
from gateways.stripe_wire import WireCharge, WireError, WireRefund
from schemas.codes import Code
from schemas.effects import Confirmed, Exchange, Failed, Unknown
from tools.refunds import ReasonCode

EXCHANGE = Exchange(
    system="payments",
    method="POST",
    path_template="/v1/refunds",
    reached="response_received",
    upstream_status=200,
    elapsed_ms=1,
)
REQUEST = RefundRequest(
    payment_id="ch_1", amount=1_234, currency="USD", reason="damaged", operation_id="op_1", idempotency_key="key_1"
)
REFUND: dict[str, Any] = {
    "id": "re_1",
    "object": "refund",
    "amount": 1_234,
    "currency": "usd",
    "status": "succeeded",
    "created": 1_700_000_000,
    "charge": "ch_1",
    "payment_intent": "pi_1",
    "metadata": {wire.OPERATION: "op_1"},
    "something_new": {"a": 1},
}


def error(type_: str, code: str | None = None) -> WireError | None:
    return read(WireError, {"error": {"type": type_, "code": code, "message": "free text"}})


# (status, word) -> what the table says. Written out again here, so that no row changes by accident.
ROWS: dict[tuple[int, str], Code | None] = {
    (400, "invalid_request_error"): Code.REMOTE_REFUSED,
    (400, "charge_already_refunded"): None,
    (400, "idempotency_error"): None,
    (401, "invalid_request_error"): Code.AUTH_FAILED,
    (401, "authentication_error"): Code.AUTH_FAILED,
    (402, "invalid_request_error"): Code.REMOTE_REFUSED,
    (402, "card_error"): Code.REMOTE_REFUSED,
    (403, "invalid_request_error"): Code.REMOTE_FORBIDDEN,
    (403, "permission_error"): Code.REMOTE_FORBIDDEN,
    (404, "invalid_request_error"): Code.REMOTE_REFUSED,
    (409, "idempotency_key_in_use"): None,
    (429, "lock_timeout"): None,
    (429, "invalid_request_error"): Code.RATE_LIMITED,
    (429, "rate_limit_error"): Code.RATE_LIMITED,
}


def test_the_table_says_what_it_says_here_and_cites_its_source() -> None:
    assert {key: row.code for key, row in wire.OUTCOMES.items()} == ROWS
    assert all(
        row.why.partition(":")[0] in ("api/errors", "api/idempotent_requests", "error-codes", "error-low-level")
        for row in wire.OUTCOMES.values()
    )


@pytest.mark.parametrize(("status", "word"), ROWS)
@pytest.mark.parametrize("headers", [{}, {"stripe-should-retry": "false"}, {"idempotent-replayed": "true"}])
def test_a_row_decides_by_the_errors_code_before_its_type(status: int, word: str, headers: dict[str, str]) -> None:
    assert wire.outcome(status, error(word), headers) is ROWS[status, word]
    assert wire.outcome(status, error("invalid_request_error", word), headers) is ROWS[status, word]


@pytest.mark.parametrize(("status", "word"), ROWS)
@pytest.mark.parametrize("value", ["true", "True", " true "])
def test_what_is_to_be_sent_again_is_never_known_to_have_failed(status: int, word: str, value: str) -> None:
    assert wire.outcome(status, error(word), {"stripe-should-retry": value}) is None


@pytest.mark.parametrize(
    ("status", "type_", "code", "means"),
    [
        (400, "invalid_request_error", "parameter_unknown", Code.REMOTE_REFUSED),
        (400, "invalid_request_error", "charge_disputed", Code.REMOTE_REFUSED),
        (402, "invalid_request_error", "insufficient_funds", Code.REMOTE_REFUSED),
        (404, "invalid_request_error", "resource_missing", Code.REMOTE_REFUSED),
        (409, "idempotency_error", "idempotency_key_in_use", None),
        (429, "invalid_request_error", "rate_limit", Code.RATE_LIMITED),
        (429, "invalid_request_error", "lock_timeout", None),
        (400, "api_error", None, None),
        (400, "card_error", None, None),
        (409, "invalid_request_error", None, None),
        (424, "api_error", None, None),
        (500, "api_error", None, None),
        (500, "invalid_request_error", None, None),
        (503, "api_error", None, None),
        (307, "invalid_request_error", None, None),
        (201, "invalid_request_error", None, None),
    ],
)
@pytest.mark.parametrize("headers", [{}, {"stripe-should-retry": "false", "idempotent-replayed": "true"}])
def test_only_what_is_documented_as_not_executed_failed(
    status: int, type_: str, code: str | None, means: Code | None, headers: dict[str, str]
) -> None:
    assert wire.outcome(status, error(type_, code), headers) is means


@settings(deadline=None)
@given(
    status=st.integers(100, 599),
    type_=st.text() | st.sampled_from([word for _, word in ROWS]),
    code=st.none() | st.text() | st.sampled_from([word for _, word in ROWS]),
    headers=st.dictionaries(st.sampled_from(["stripe-should-retry", "idempotent-replayed"]), st.text()),
)
def test_an_answer_outside_the_client_errors_never_failed(
    status: int, type_: str, code: str | None, headers: dict[str, str]
) -> None:
    if wire.outcome(status, error(type_, code), headers) is not None:
        assert 400 <= status < 500
        assert status != 409


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 429])
@pytest.mark.parametrize("content", [None, {}, [], "x", {"error": "x"}, {"error": {"code": "rate_limit"}}])
def test_a_client_error_without_an_error_object_is_not_the_gateways(status: int, content: Any) -> None:
    assert wire.outcome(status, read(WireError, content), {}) is None


@pytest.mark.parametrize("code", get_args(ReasonCode))
def test_every_reason_of_ours_has_one_of_theirs(code: str) -> None:
    assert code in wire.REASONS
    assert wire.reason(code) == "requested_by_customer"


def test_no_other_reason_is_a_claim_about_the_payment() -> None:
    assert wire.reason("fraud") == wire.reason("") == "requested_by_customer"


JUDGED: dict[str, tuple[dict[str, Any], str]] = {
    "ours": ({}, "confirmed succeeded"),
    "pending": ({"status": "pending"}, "confirmed pending"),
    "requires action": ({"status": "requires_action"}, "confirmed requires_action"),
    "failed": ({"status": "failed"}, "failed REMOTE_REFUSED"),
    "canceled": ({"status": "canceled"}, "failed REMOTE_REFUSED"),
    "no status": ({"status": None}, "unknown unknown_status"),
    "new status": ({"status": "reversed"}, "unknown unknown_status"),
    "other amount": ({"amount": 1_235}, "unknown mismatched_amount"),
    "other currency": ({"currency": "eur"}, "unknown mismatched_currency"),
    "other operation": ({"metadata": {wire.OPERATION: "op_2"}}, "unknown mismatched_operation"),
    "no metadata": ({"metadata": None}, "unknown mismatched_operation"),
    "other payment": ({"charge": "ch_2", "payment_intent": None}, "unknown mismatched_payment"),
    "failed, and not ours": ({"status": "failed", "amount": 1}, "unknown mismatched_amount"),
}


@pytest.mark.parametrize("case", JUDGED)
def test_a_refund_is_believed_only_when_it_is_wholly_ours(case: str) -> None:
    changes, said = JUDGED[case]
    found = read(WireRefund, REFUND | changes)
    assert found is not None
    match judge(found, REQUEST, EXCHANGE):
        case Confirmed() as outcome:
            assert said == f"confirmed {outcome.result['status']}"
            assert (outcome.remote_id, outcome.result["amount_cents"]) == ("re_1", 1_234)
        case Failed() as outcome:
            assert said == f"failed {outcome.code}"
        case Unknown() as outcome:
            assert said == f"unknown {outcome.exchange.problem}"


@pytest.mark.parametrize(
    "changes",
    [
        {"amount": "1234"},
        {"amount": 1234.0},
        {"amount": True},
        {"amount": -1},
        {"amount": 10**13},
        {"id": "re_1/../x"},
        {"id": None},
        {"object": "charge"},
        {"currency": "USD"},
        {"currency": "usd\n"},
        {"metadata": {"a": 1}},
        {"created": "now"},
    ],
)
def test_a_refund_that_is_not_well_formed_is_not_read(changes: dict[str, Any]) -> None:
    assert read(WireRefund, REFUND | changes) is None


@pytest.mark.parametrize(
    ("amount", "currency", "on_the_wire"),
    [
        (1_234, "USD", 1_234),
        (9_899, "JPY", 9_899),
        (18_600, "KWD", 18_600),
        (5_124, "KWD", None),
        (5_120, "BHD", 5_120),
        (1, "TND", None),
        (12_345, "HUF", 12_345),
        (12_345, "TWD", 12_345),
        (12, "ISK", 1_200),
        (12, "UGX", 1_200),
        (1_200, "MGA", 12),
        (1_250, "MGA", None),
    ],
)
def test_amounts_are_in_the_gateways_minor_units(amount: int, currency: str, on_the_wire: int | None) -> None:
    assert wire.to_wire(amount, currency) == on_the_wire


@settings(deadline=None)
@given(st.integers(0, 10**12), st.sampled_from(["USD", "JPY", "KWD", "ISK", "UGX", "MGA", "HUF", "TWD"]))
def test_an_amount_survives_the_way_there_and_back(amount: int, currency: str) -> None:
    there = wire.to_wire(amount, currency)
    if there is not None:
        assert wire.from_wire(there, currency) == amount
        assert wire.from_wire(there, currency, up=True) == amount


def test_what_is_left_is_never_rounded_in_the_customers_favour() -> None:
    charge = read(
        WireCharge,
        {
            "id": "ch_1",
            "object": "charge",
            "amount_captured": 199,
            "amount_refunded": 101,
            "currency": "isk",
            "disputed": False,
        },
    )
    assert charge is not None
    payment = wire.payment(charge, "ch_1")
    assert (payment.captured_cents, payment.refunded_cents) == (1, 2)


@pytest.mark.parametrize(
    ("payment_id", "name"), [("pi_1", "payment_intent"), ("ch_1", "charge"), ("py_1", "charge"), ("pay_pi_1", "charge")]
)
def test_the_prefix_tells_intent_from_charge(payment_id: str, name: str) -> None:
    assert named(payment_id) == name
