"""What PayPal's answers mean: tables and properties, without a network."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateways import paypal_wire as wire
from gateways.border import read
from gateways.paypal import judge
from gateways.paypal_wire import Amount, Link, Token, WireCapture, WireDisputes, WireError, WireOrder, WireRefund
from gateways.protocols import RefundRequest
from schemas.codes import Code
from schemas.effects import Confirmed, Exchange, Failed, Unknown

EXCHANGE = Exchange(
    system="payments",
    method="POST",
    path_template="/v2/payments/captures/{id}/refund",
    reached="response_received",
    upstream_status=201,
    elapsed_ms=1,
)
REQUEST = RefundRequest(
    payment_id="CAP1", amount=1_234, currency="USD", reason="damaged", operation_id="op_1", idempotency_key="key_1"
)
UP: dict[str, Any] = {"rel": "up", "method": "GET", "href": "https://api-m.paypal.com/v2/payments/captures/CAP1"}
SELF: dict[str, Any] = {"rel": "self", "method": "GET", "href": "https://api-m.paypal.com/v2/payments/refunds/REF1"}
REFUND: dict[str, Any] = {
    "id": "REF1",
    "status": "COMPLETED",
    "amount": {"currency_code": "USD", "value": "12.34"},
    "custom_id": "op_1",
    "create_time": "2026-11-30T12:00:00Z",
    "links": [SELF, UP],
    "something_new": {"a": 1},
}
ORDER: dict[str, Any] = {"id": "ORD1", "purchase_units": [{"payments": {"captures": [{"id": "CAP1"}]}}]}


def error(name: str | None, *issues: str | None) -> WireError | None:
    return read(WireError, {"name": name, "message": "free text", "details": [{"issue": each} for each in issues]})


# https://developer.paypal.com/docs/api/payments/v2/#captures_refund lists these for refunds.
DOCUMENTED = [
    (400, "INVALID_REQUEST", "INVALID_PARAMETER_SYNTAX", Code.REMOTE_REFUSED),
    (400, "INVALID_REQUEST", None, Code.REMOTE_REFUSED),
    (401, "AUTHENTICATION_FAILURE", "INVALID_ACCOUNT_STATUS", Code.AUTH_FAILED),
    (403, "NOT_AUTHORIZED", "PERMISSION_DENIED", Code.REMOTE_FORBIDDEN),
    (404, "RESOURCE_NOT_FOUND", "INVALID_RESOURCE_ID", Code.REMOTE_REFUSED),
    (409, "RESOURCE_CONFLICT", "PREVIOUS_REQUEST_IN_PROGRESS", None),
    (422, "UNPROCESSABLE_ENTITY", "CAPTURE_FULLY_REFUNDED", None),
    (422, "UNPROCESSABLE_ENTITY", "REFUND_AMOUNT_EXCEEDED", Code.REMOTE_REFUSED),
    (422, "UNPROCESSABLE_ENTITY", "REFUND_TIME_LIMIT_EXCEEDED", Code.REMOTE_REFUSED),
    (422, "UNPROCESSABLE_ENTITY", "REFUND_IS_RESTRICTED", Code.REMOTE_FORBIDDEN),
    (422, "UNPROCESSABLE_ENTITY", "TRANSACTION_DISPUTED", Code.REMOTE_REFUSED),
    (429, "RATE_LIMIT_REACHED", None, Code.RATE_LIMITED),
    # What is listed for no refund, or nowhere.
    (422, "UNPROCESSABLE_ENTITY", None, None),
    (422, "UNPROCESSABLE_ENTITY", "DUPLICATE_REQUEST_ID", None),
    (422, "UNPROCESSABLE_ENTITY", "DUPLICATE_INVOICE_ID", None),
    (422, "UNPROCESSABLE_ENTITY", "PAYPAL_REQUEST_ID_PREVIOUSLY_USED", None),
    (422, "UNPROCESSABLE_ENTITY", "SOMETHING_NEW", None),
    (400, "SOMETHING_NEW", None, None),
    (400, "UNPROCESSABLE_ENTITY", "REFUND_AMOUNT_EXCEEDED", None),
    (500, "INTERNAL_SERVER_ERROR", None, None),
    (500, "INVALID_REQUEST", None, None),
    (503, "SERVICE_UNAVAILABLE", None, None),
    (202, "INVALID_REQUEST", None, None),
    (307, "INVALID_REQUEST", None, None),
    (401, "SOMETHING_NEW", None, None),
]


@pytest.mark.parametrize(("status", "name", "issue", "means"), DOCUMENTED)
def test_only_what_is_documented_as_not_executed_failed(
    status: int, name: str, issue: str | None, means: Code | None
) -> None:
    assert wire.outcome(status, error(name, issue)) is means


def test_several_issues_count_only_when_all_mean_the_same() -> None:
    exceeded, disputed, new = "REFUND_AMOUNT_EXCEEDED", "TRANSACTION_DISPUTED", "SOMETHING_NEW"
    assert wire.outcome(422, error("UNPROCESSABLE_ENTITY", exceeded, disputed)) is Code.REMOTE_REFUSED
    assert wire.outcome(422, error("UNPROCESSABLE_ENTITY", exceeded, new)) is None
    assert wire.outcome(422, error("UNPROCESSABLE_ENTITY", exceeded, "CAPTURE_FULLY_REFUNDED")) is None
    assert wire.outcome(422, error("UNPROCESSABLE_ENTITY", exceeded, "REFUND_IS_RESTRICTED")) is None


def test_a_token_that_is_no_good_any_more_is_refused_in_oauths_own_words() -> None:
    refused = read(WireError, {"error": "invalid_token", "error_description": "Token signature verification failed"})
    assert wire.outcome(401, refused) is Code.AUTH_FAILED
    assert wire.outcome(500, refused) is None


@settings(deadline=None)
@given(
    status=st.integers(100, 599),
    name=st.text() | st.sampled_from([word for _, word in wire.OUTCOMES]),
    issue=st.none() | st.text() | st.sampled_from([word for _, word in wire.OUTCOMES]),
)
def test_an_answer_outside_the_client_errors_never_failed(status: int, name: str, issue: str | None) -> None:
    if wire.outcome(status, error(name, issue)) is not None:
        assert 400 <= status < 500
        assert status != 409


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429])
@pytest.mark.parametrize("content", [None, {}, [], "x", {"name": 1}, {"details": [{"issue": "NEW"}]}, {"code": "x"}])
def test_a_client_error_without_an_error_object_is_not_the_gateways(status: int, content: Any) -> None:
    assert wire.outcome(status, read(WireError, content)) is None


JUDGED: dict[str, tuple[dict[str, Any], str]] = {
    "ours": ({}, "confirmed succeeded"),
    "the same amount written otherwise": (
        {"amount": {"currency_code": "USD", "value": "12.340"}},
        "confirmed succeeded",
    ),
    "pending": ({"status": "PENDING"}, "confirmed pending"),
    "failed": ({"status": "FAILED"}, "failed REMOTE_REFUSED"),
    "cancelled": ({"status": "CANCELLED"}, "failed REMOTE_REFUSED"),
    "no status": ({"status": None}, "unknown unknown_status"),
    "new status": ({"status": "REVERSED"}, "unknown unknown_status"),
    "other amount": ({"amount": {"currency_code": "USD", "value": "12.35"}}, "unknown mismatched_amount"),
    "a hundred times as much": ({"amount": {"currency_code": "USD", "value": "1234"}}, "unknown mismatched_amount"),
    "a fraction of a cent more": ({"amount": {"currency_code": "USD", "value": "12.341"}}, "unknown mismatched_amount"),
    "other currency": ({"amount": {"currency_code": "EUR", "value": "12.34"}}, "unknown mismatched_currency"),
    "other operation": ({"custom_id": "op_2"}, "unknown mismatched_operation"),
    "no operation": ({"custom_id": None}, "unknown mismatched_operation"),
    "no link upwards": ({"links": [SELF]}, "unknown mismatched_payment"),
    "two links upwards": ({"links": [UP, UP]}, "unknown mismatched_payment"),
    "other payment": ({"links": [UP | {"href": UP["href"] + "X"}]}, "unknown mismatched_payment"),
    "link to something below": ({"links": [UP | {"href": UP["href"] + "/refund"}]}, "unknown mismatched_payment"),
    "failed, and not ours": ({"status": "FAILED", "custom_id": "op_2"}, "unknown mismatched_operation"),
}


@pytest.mark.parametrize("case", JUDGED)
def test_a_refund_is_believed_only_when_it_is_wholly_ours(case: str) -> None:
    changes, said = JUDGED[case]
    found = read(WireRefund, REFUND | changes)
    assert found is not None
    match judge(found, REQUEST, EXCHANGE):
        case Confirmed() as outcome:
            assert said == f"confirmed {outcome.result['status']}"
            assert (outcome.remote_id, outcome.result["amount_cents"]) == ("REF1", 1_234)
        case Failed() as outcome:
            assert said == f"failed {outcome.code}"
        case Unknown() as outcome:
            assert said == f"unknown {outcome.exchange.problem}"


@pytest.mark.parametrize(
    "changes",
    [
        {"amount": "12.34"},
        {"amount": {"currency_code": "USD", "value": 12.34}},
        {"amount": {"currency_code": "USD", "value": "-12.34"}},
        {"amount": {"currency_code": "USD", "value": "12.34e2"}},
        {"amount": {"currency_code": "USD", "value": " 12.34"}},
        {"amount": {"currency_code": "USD", "value": "12,34"}},
        {"amount": {"currency_code": "USD", "value": "12."}},
        {"amount": {"currency_code": "usd", "value": "12.34"}},
        {"amount": {"value": "12.34"}},
        {"amount": None},
        {"id": "REF1/../x"},
        {"id": None},
        {"links": {"up": "x"}},
        {"custom_id": 1},
        {"create_time": "now"},
        {"create_time": "2026-11-30T12:00:00"},
    ],
)
def test_a_refund_that_is_not_well_formed_is_not_read(changes: dict[str, Any]) -> None:
    assert read(WireRefund, REFUND | changes) is None


def test_the_short_form_of_an_answer_is_not_enough() -> None:
    short: Any = {"id": "REF1", "status": "COMPLETED", "links": [SELF, UP]}
    assert read(WireRefund, short) is None


@pytest.mark.parametrize(
    ("amount", "currency", "on_the_wire"),
    [
        (1_234, "USD", "12.34"),
        (5, "USD", "0.05"),
        (100_000, "USD", "1000.00"),
        (1_000, "JPY", "1000"),
        (100_000, "HUF", "1000"),
        (100_050, "HUF", None),
        (100, "TWD", "1"),
        (1, "TWD", None),
        (1_234, "KWD", "1.234"),
    ],
)
def test_amounts_have_the_currencys_decimals_at_paypal(amount: int, currency: str, on_the_wire: str | None) -> None:
    assert wire.to_wire(amount, currency) == on_the_wire


@settings(deadline=None)
@given(st.integers(0, 10**12), st.sampled_from(["USD", "JPY", "KWD", "HUF", "TWD", "EUR"]))
def test_an_amount_survives_the_way_there_and_back(amount: int, currency: str) -> None:
    there = wire.to_wire(amount, currency)
    if there is None:
        assert amount % 100
        assert currency in ("HUF", "TWD")
    else:
        assert wire.from_wire(Amount(currency_code=currency, value=there)) == amount


@pytest.mark.parametrize(("value", "currency"), [("10.005", "USD"), ("1000.5", "JPY"), ("0.001", "EUR")])
def test_an_amount_that_is_too_exact_is_not_rounded(value: str, currency: str) -> None:
    assert wire.from_wire(Amount(currency_code=currency, value=value)) is None


def payment(status: str, *refunds: dict[str, Any], **capture: Any) -> Any:
    content: dict[str, Any] = {"id": "CAP1", "status": status, "amount": {"currency_code": "USD", "value": "100.00"}}
    found = read(WireCapture, content | capture)
    order = read(WireOrder, ORDER)
    assert found is not None
    assert order is not None
    listed = [read(WireRefund, REFUND | each) for each in refunds]
    understood = [wire.refund(each, "CAP1") for each in listed if each is not None]
    return wire.payment(found, order, [each for each in understood if each is not None], disputed=False)


@pytest.mark.parametrize(
    ("status", "captured", "refunded"),
    [
        ("COMPLETED", 10_000, 1_234),
        ("PARTIALLY_REFUNDED", 10_000, 1_234),
        # All of it is gone, whatever is listed.
        ("REFUNDED", 10_000, 10_000),
        # Nothing came in.
        ("PENDING", 0, 1_234),
        ("DECLINED", 0, 1_234),
        ("FAILED", 0, 1_234),
    ],
)
def test_what_is_left_of_a_payment_is_never_over_stated(status: str, captured: int, refunded: int) -> None:
    found = payment(status, {}, {"id": "REF2", "status": "FAILED"}, {"id": "REF3", "status": "CANCELLED"})
    assert (found.captured_cents, found.refunded_cents) == (captured, refunded)


def test_a_refund_of_unknown_status_counts_as_refunded() -> None:
    assert payment("COMPLETED", {"status": "SOMETHING_NEW"}).refunded_cents == 1_234


def test_a_refund_in_another_currency_makes_the_payment_unreadable() -> None:
    assert payment("COMPLETED", {"amount": {"currency_code": "EUR", "value": "1.00"}}) is None


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"card": {"last_digits": "1111", "brand": "VISA"}}, ("card", "1111")),
        ({"apple_pay": {"card": {"last_digits": "1111"}}}, ("apple_pay", "1111")),
        ({"paypal": {"email_address": "ada@example.com"}}, ("paypal", None)),
        ({"card": {"last_digits": "11"}}, ("card", None)),
        ({"card": {"last_digits": "١١١١"}}, ("card", None)),
        ({"card": "1111"}, ("card", None)),
        ({"a": {}, "b": {}}, ("payment method", None)),
        ({"<b>": {}}, ("payment method", None)),
        ({}, ("payment method", None)),
        (None, ("payment method", None)),
    ],
)
def test_how_it_was_paid_is_told_only_in_plain_words(source: Any, said: tuple[str, str | None]) -> None:
    assert wire.source(source) == said


@pytest.mark.parametrize(
    ("href", "capture"),
    [
        ("https://api-m.paypal.com/v2/payments/captures/CAP1", "CAP1"),
        ("https://api-m.paypal.com/v2/payments/captures/CAP1\n", None),
        ("https://api-m.paypal.com/v2/payments/captures/", None),
        ("https://api-m.paypal.com/v2/payments/authorizations/CAP1", None),
        ("https://api-m.paypal.com/v2/payments/captures/CAP1?x=1", None),
    ],
)
def test_the_link_upwards_names_the_capture(href: str, capture: str | None) -> None:
    assert wire.above([Link(rel="up", href=href), Link(rel="self", href="x")]) == capture


def test_a_list_of_disputes_is_told_from_any_other_object() -> None:
    assert read(WireDisputes, {}) is None
    assert read(WireDisputes, {"items": [{"dispute_id": "PP-1"}]}) is None
    assert read(WireDisputes, {"items": [], "links": []}) == WireDisputes(items=[], links=[])
    assert read(WireDisputes, {"items": [{"dispute": "PP-1"}], "links": []}) is None


def test_a_token_does_not_show_itself() -> None:
    token = read(Token, {"access_token": "very_secret", "token_type": "Bearer", "expires_in": 32_400})
    assert token is not None
    assert "very_secret" not in repr(token)
    assert "very_secret" not in str(token)
