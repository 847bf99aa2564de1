"""What the Stripe adapter sends, and what it makes of answers that no mock of Stripe gives."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from pydantic import SecretStr

from gateways import stripe_wire as wire
from gateways.protocols import PaymentGateway, RefundRequest, SystemUnavailable
from gateways.registry import Endpoint, payment_gateway
from schemas.effects import Attempt, Confirmed, Failed, Unknown
from tests import loopback

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
    "payment_intent": None,
    "metadata": {wire.OPERATION: "op_1"},
}


class Stripe:
    """Answers each request with the next of `answers`, and keeps the requests."""

    def __init__(self) -> None:
        self.answers: list[httpx.Response] = []
        self.requests: list[httpx.Request] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self.answers.pop(0)

    def form(self) -> dict[str, str]:
        (request,) = self.requests
        fields = parse_qs(request.content.decode(), keep_blank_values=True, strict_parsing=True)
        return {name: value for name, [value] in fields.items()}


def response(status: int, content: Any, headers: dict[str, str] | None = None) -> httpx.Response:
    return httpx.Response(status, headers=headers, stream=httpx.ByteStream(json.dumps(content).encode()))


@pytest.fixture
def stripe() -> Stripe:
    return Stripe()


@pytest.fixture
async def gateway(stripe: Stripe) -> AsyncIterator[PaymentGateway]:
    endpoint = Endpoint(base_url="https://stripe.test", api_key=SecretStr("sk_test_1"))
    async with httpx.AsyncClient(transport=httpx.MockTransport(stripe.answer)) as client:
        yield payment_gateway("stripe", endpoint, client, loopback.egress(endpoint.base_url))


Refund = Callable[..., Awaitable[Attempt]]


@pytest.fixture
def refund(stripe: Stripe, gateway: PaymentGateway) -> Refund:
    """Asks for a refund that is answered so."""

    async def ask(status: int, content: Any, headers: dict[str, str] | None = None, **changes: Any) -> Attempt:
        stripe.answers.append(response(status, content, headers))
        return await gateway.refund(REQUEST.model_copy(update=changes))

    return ask


def told(outcome: Attempt) -> str:
    match outcome:
        case Confirmed():
            return f"confirmed {outcome.result['status']}"
        case Failed():
            return f"failed {outcome.code}"
        case Unknown():
            return f"unknown {outcome.exchange.problem}"


def error(type_: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"type": type_, "code": code, "message": "free text"}}


async def test_a_refund_is_asked_for_as_documented(stripe: Stripe, refund: Refund) -> None:
    assert told(await refund(200, REFUND, note="The lamp came broken.")) == "confirmed succeeded"
    assert stripe.form() == {
        "charge": "ch_1",
        "amount": "1234",
        "reason": "requested_by_customer",
        "metadata[counterseal_operation]": "op_1",
        "metadata[counterseal_reason]": "damaged",
        "metadata[counterseal_note]": "The lamp came broken.",
    }
    (request,) = stripe.requests
    assert (request.method, request.url.path) == ("POST", "/v1/refunds")
    assert request.headers["idempotency-key"] == "key_1"
    assert request.headers["stripe-version"] == "2024-10-28.acacia"
    assert request.headers["authorization"] == "Bearer sk_test_1"


async def test_a_long_note_is_cut_between_characters(stripe: Stripe, refund: Refund) -> None:
    note = "x" * 498 + "e\N{COMBINING ACUTE ACCENT}" + "\N{PACKAGE}"
    assert told(await refund(200, REFUND, note=note)) == "confirmed succeeded"
    assert stripe.form()["metadata[counterseal_note]"] == "x" * 498 + "e\N{COMBINING ACUTE ACCENT}"


@pytest.mark.parametrize("note", [None, "", "\N{COMBINING ACUTE ACCENT}" * 501])
async def test_no_note_is_sent_where_there_is_none(stripe: Stripe, refund: Refund, note: str | None) -> None:
    assert told(await refund(200, REFUND, note=note)) == "confirmed succeeded"
    assert "metadata[counterseal_note]" not in stripe.form()


@pytest.mark.parametrize(("amount", "currency"), [(5_124, "KWD"), (1_250, "MGA")])
async def test_an_amount_that_stripe_cannot_take_is_not_sent(
    stripe: Stripe, gateway: PaymentGateway, amount: int, currency: str
) -> None:
    outcome = await gateway.refund(REQUEST.model_copy(update={"amount": amount, "currency": currency}))
    assert told(outcome) == "failed REMOTE_REFUSED"
    assert (outcome.exchange.reached, outcome.exchange.problem) == ("nothing_sent", "inexpressible_amount")
    assert stripe.requests == []


@pytest.mark.parametrize(
    ("amount", "currency", "on_the_wire"), [(9_899, "JPY", 9_899), (18_600, "KWD", 18_600), (12, "ISK", 1_200)]
)
async def test_amounts_are_sent_and_read_in_stripes_minor_units(
    stripe: Stripe, refund: Refund, amount: int, currency: str, on_the_wire: int
) -> None:
    answer = REFUND | {"amount": on_the_wire, "currency": currency.lower()}
    outcome = await refund(200, answer, amount=amount, currency=currency)
    assert isinstance(outcome, Confirmed)
    assert outcome.result["amount_cents"] == amount
    assert stripe.form()["amount"] == str(on_the_wire)


ANSWERS: dict[str, tuple[int, Any, dict[str, str], str]] = {
    "pending": (200, REFUND | {"status": "pending"}, {}, "confirmed pending"),
    "requires action": (200, REFUND | {"status": "requires_action"}, {}, "confirmed requires_action"),
    "failed": (200, REFUND | {"status": "failed"}, {}, "failed REMOTE_REFUSED"),
    "canceled": (200, REFUND | {"status": "canceled"}, {}, "failed REMOTE_REFUSED"),
    "a replayed refund": (200, REFUND, {"Idempotent-Replayed": "true"}, "confirmed succeeded"),
    "a replayed refusal": (
        400,
        error("invalid_request_error"),
        {"Idempotent-Replayed": "true"},
        "failed REMOTE_REFUSED",
    ),
    "a replayed 500": (500, error("api_error"), {"Idempotent-Replayed": "true"}, "unknown http_500"),
    "a 500 not to be retried": (500, error("api_error"), {"Stripe-Should-Retry": "false"}, "unknown http_500"),
    "a 400 to be retried": (
        400,
        error("invalid_request_error"),
        {"Stripe-Should-Retry": "true"},
        "unknown http_400",
    ),
    "a 400 not to be retried": (
        400,
        error("invalid_request_error"),
        {"Stripe-Should-Retry": "false"},
        "failed REMOTE_REFUSED",
    ),
    "an unlisted answer not to be retried": (
        418,
        error("invalid_request_error"),
        {"Stripe-Should-Retry": "false"},
        "unknown http_418",
    ),
    "a key in use": (409, error("idempotency_error", "idempotency_key_in_use"), {}, "unknown http_409"),
    "a lock": (429, error("invalid_request_error", "lock_timeout"), {"Retry-After": "1"}, "unknown http_429"),
    "a rate limit": (429, error("invalid_request_error", "rate_limit"), {}, "failed RATE_LIMITED"),
    "a rate limit to be retried": (
        429,
        error("invalid_request_error", "rate_limit"),
        {"Stripe-Should-Retry": "true"},
        "unknown http_429",
    ),
    "a redirect": (303, error("invalid_request_error"), {"Location": "https://stripe.test/v1/x"}, "unknown http_303"),
    "a 201": (201, REFUND, {}, "unknown http_201"),
    "a middlebox's 403": (403, {"message": "Forbidden"}, {}, "unknown http_403"),
    "a body without end": (200, REFUND | {"filler": "x" * 2**20}, {}, "unknown too_large"),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_an_answer_is_classified(stripe: Stripe, refund: Refund, case: str) -> None:
    status, content, headers, said = ANSWERS[case]
    assert told(await refund(status, content, headers)) == said
    assert len(stripe.requests) == 1


CHARGE: dict[str, Any] = {
    "id": "ch_1",
    "object": "charge",
    "amount_captured": 1_234,
    "amount_refunded": 0,
    "currency": "usd",
    "disputed": False,
    "payment_intent": "pi_1",
}
INTENT: dict[str, Any] = {"id": "pi_1", "object": "payment_intent", "latest_charge": "ch_1"}
LIES: dict[str, list[dict[str, Any]]] = {
    "another intent": [INTENT | {"id": "pi_2"}],
    "another charge": [INTENT, CHARGE | {"id": "ch_2"}],
    "a charge of another intent": [INTENT, CHARGE | {"payment_intent": "pi_2"}],
    "a charge of no intent": [INTENT, CHARGE | {"payment_intent": None}],
}


@pytest.mark.parametrize("case", LIES)
async def test_a_payment_that_was_not_asked_for_is_no_fact(stripe: Stripe, gateway: PaymentGateway, case: str) -> None:
    stripe.answers = [response(200, each) for each in LIES[case]]
    with pytest.raises(SystemUnavailable, match=r"^payments: mismatched$"):
        await gateway.payment("pi_1")


async def test_an_intent_is_read_by_way_of_its_charge(stripe: Stripe, gateway: PaymentGateway) -> None:
    stripe.answers = [response(200, INTENT), response(200, CHARGE)]
    payment = await gateway.payment("pi_1")
    assert payment is not None
    assert (payment.payment_id, payment.captured_cents, payment.disputed) == ("pi_1", 1_234, False)
    assert {each.headers["stripe-version"] for each in stripe.requests} == {"2024-10-28.acacia"}


async def test_an_intent_that_never_was_charged_is_no_payment(stripe: Stripe, gateway: PaymentGateway) -> None:
    stripe.answers = [response(200, INTENT | {"latest_charge": None})]
    assert await gateway.payment("pi_1") is None


async def test_a_list_without_end_is_given_up(stripe: Stripe, gateway: PaymentGateway) -> None:
    page = {"object": "list", "has_more": True, "data": [REFUND] * 100}
    stripe.answers = [response(200, page) for _ in range(60)]
    found = await gateway.find_refund(REQUEST)
    assert found.kind == "unknown"
    assert (found.exchange.problem, len(stripe.requests)) == ("list_too_long", 50)
    assert stripe.requests[1].url.params["starting_after"] == "re_1"
