"""What every payment gateway adapter must do, played against a real gateway with its faults."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import httpx
import pytest

from gateways.protocols import PaymentGateway, RefundRequest, SystemUnavailable
from gateways.registry import PAYMENT_GATEWAYS, Endpoint, payment_gateway
from sandbox.faults import KINDS
from schemas.codes import REGISTRY, Code
from schemas.effects import Absent, Attempt, Confirmed, Failed, Inspection, Unknown


class Box(Protocol):
    """The `sandbox` fixture."""

    gateway_url: str
    egress: Any

    def endpoint(self, url: str, *, key: str = ..., deadline_seconds: float = ...) -> Endpoint: ...
    async def order(self, payment_ids: list[str] | None = None, **changes: Any) -> dict[str, Any]: ...
    async def fault(self, operation: str, do: str, payment_id: str, times: int = 1) -> None: ...
    async def clear_faults(self) -> None: ...
    async def effects(self, payment_id: str) -> list[dict[str, Any]]: ...
    async def set_refund_status(self, refund_id: str, status: str) -> None: ...
    async def refund_in_dashboard(self, payment_id: str, amount: int) -> None: ...


Connect = Callable[[float], PaymentGateway]


# One name for each adapter: some have several.
ADAPTERS = sorted({adapter: name for name, adapter in PAYMENT_GATEWAYS.items()}.values())


@pytest.fixture(params=ADAPTERS)
def connect(request: pytest.FixtureRequest, sandbox: Box, client: httpx.AsyncClient) -> Connect:
    """The adapter under test with a deadline in seconds."""

    def build(deadline_seconds: float) -> PaymentGateway:
        endpoint = sandbox.endpoint(sandbox.gateway_url, deadline_seconds=deadline_seconds)
        return payment_gateway(request.param, endpoint, client, sandbox.egress)

    return build


@pytest.fixture
def gateway(connect: Connect) -> PaymentGateway:
    return connect(5.0)


@pytest.fixture
async def payment_id(sandbox: Box) -> str:
    """A payment of 100.00 USD."""
    return (await sandbox.order())["payments"][0]["payment_id"]


def request_for(payment_id: str, **changes: Any) -> RefundRequest:
    values = {
        "payment_id": payment_id,
        "amount": 1_234,
        "currency": "USD",
        "reason": "damaged",
        "operation_id": f"op_{secrets.token_hex(16)}",
        "idempotency_key": f"key_{secrets.token_hex(16)}",
    }
    return RefundRequest.model_validate(values | changes)


def told(outcome: Attempt | Inspection) -> str:
    """An outcome in one line, e.g. `failed RATE_LIMITED`, `unknown timeout`, `confirmed pending`."""
    match outcome:
        case Confirmed():
            return f"confirmed {outcome.result['status']}"
        case Failed():
            return f"failed {outcome.code}"
        case Unknown():
            return f"unknown {outcome.exchange.problem}"
        case Absent():
            return "absent"


async def until(look: Callable[[], Awaitable[str]], wanted: str) -> None:
    async with asyncio.timeout(10):
        while await look() != wanted:
            await asyncio.sleep(0.05)


async def test_a_refund_is_made_once_and_confirmed(gateway: PaymentGateway, sandbox: Box, payment_id: str) -> None:
    request = request_for(payment_id)
    outcome = await gateway.refund(request)
    assert isinstance(outcome, Confirmed)
    assert outcome.result == {
        "refund_id": outcome.remote_id,
        "amount_cents": 1_234,
        "currency": "USD",
        "status": "succeeded",
    }
    assert (outcome.exchange.reached, outcome.exchange.upstream_status) == ("response_received", 200)
    (effect,) = await sandbox.effects(payment_id)
    assert effect["idempotency_key"] == request.idempotency_key
    assert effect["operation_id"] == request.operation_id
    assert (effect["amount"], effect["refund_id"]) == (1_234, outcome.remote_id)


async def test_the_same_key_again_is_the_same_refund(gateway: PaymentGateway, sandbox: Box, payment_id: str) -> None:
    request = request_for(payment_id)
    first, second = await gateway.refund(request), await gateway.refund(request)
    assert isinstance(first, Confirmed)
    assert isinstance(second, Confirmed)
    assert first.remote_id == second.remote_id
    assert len(await sandbox.effects(payment_id)) == 1


async def test_the_same_key_for_another_refund_says_nothing_about_the_first(
    gateway: PaymentGateway, sandbox: Box, payment_id: str
) -> None:
    request = request_for(payment_id)
    await gateway.refund(request)
    other = request.model_copy(update={"amount": 99})
    assert told(await gateway.refund(other)) == "unknown http_400"
    assert len(await sandbox.effects(payment_id)) == 1


# What the fault does to a refund -> what the attempt says, refunds really made, what an inspection afterwards says.
REFUND_FAULTS = {
    "commit_then_drop": ("unknown no_response", 1, "confirmed succeeded"),
    "commit_then_500": ("unknown http_500", 1, "confirmed succeeded"),
    "slow_drip": ("unknown timeout", 1, "confirmed succeeded"),
    "delay:0.1": ("confirmed succeeded", 1, "confirmed succeeded"),
    "delay:30": ("unknown timeout", 1, "confirmed succeeded"),
    "garbage": ("unknown unreadable", 1, "confirmed succeeded"),
    "html": ("unknown unreadable", 1, "confirmed succeeded"),
    "duplicate_keys": ("unknown unreadable", 1, "confirmed succeeded"),
    "wrong_amount": ("unknown mismatched_amount", 1, "confirmed succeeded"),
    "wrong_id": ("unknown mismatched_operation", 1, "confirmed succeeded"),
    "pending": ("confirmed pending", 1, "confirmed pending"),
    "pending_then_failed": ("confirmed pending", 1, "failed REMOTE_REFUSED"),
    "late_visible:0.4": ("unknown no_response", 1, "absent"),
    "drop_before_read": ("unknown no_response", 0, "absent"),
    "reset": ("unknown reset", 0, "absent"),
    "redirect_self": ("unknown http_307", 0, "absent"),
    "redirect_other": ("unknown http_307", 0, "absent"),
    "429:7": ("failed RATE_LIMITED", 0, "absent"),
    "429:7:lock_timeout": ("failed RATE_LIMITED", 0, "absent"),
    "503": ("unknown http_503", 0, "absent"),
    "503_forever": ("unknown http_503", 0, "absent"),
    "in_use": ("unknown http_409", 0, "absent"),
    "already_refunded": ("unknown http_400", 0, "absent"),
}


def test_every_fault_of_the_sandbox_is_in_the_tables() -> None:
    assert {each.partition(":")[0] for each in REFUND_FAULTS} == set(KINDS)
    of_any_operation = {name for name, kind in KINDS.items() if not kind.only_refund}
    assert {each.partition(":")[0] for each in LIST_FAULTS} == of_any_operation


@pytest.mark.parametrize("fault", REFUND_FAULTS)
async def test_a_fault_of_a_refund_is_classified(connect: Connect, sandbox: Box, payment_id: str, fault: str) -> None:
    said, made, found = REFUND_FAULTS[fault]
    gateway, request = connect(0.5), request_for(payment_id)
    await sandbox.fault("refund", fault, payment_id)
    outcome = await gateway.refund(request)
    assert told(outcome) == said
    assert len(await sandbox.effects(payment_id)) == made
    assert told(await gateway.find_refund(request)) == found
    assert outcome.exchange.elapsed_ms < 2_000


async def test_what_becomes_visible_late_is_found_late(connect: Connect, sandbox: Box, payment_id: str) -> None:
    gateway, request = connect(5.0), request_for(payment_id)
    await sandbox.fault("refund", "late_visible:0.4", payment_id)
    await gateway.refund(request)

    async def look() -> str:
        return told(await gateway.find_refund(request))

    assert await look() == "absent"
    await until(look, "confirmed succeeded")


# What the fault does to a list of refunds in which ours is -> what an inspection says, what a read of the list says.
LIST_FAULTS = {
    "commit_then_drop": ("unknown no_response", "no_response"),
    "commit_then_500": ("unknown http_500", "http_500"),
    "slow_drip": ("unknown timeout", "timeout"),
    "delay:0.1": ("confirmed succeeded", None),
    "garbage": ("unknown unreadable", "unreadable"),
    "html": ("unknown unreadable", "unreadable"),
    "duplicate_keys": ("unknown unreadable", "unreadable"),
    "wrong_amount": ("unknown mismatched_amount", None),
    "wrong_id": ("absent", None),
    "drop_before_read": ("unknown no_response", "no_response"),
    "reset": ("unknown reset", "reset"),
    "redirect_self": ("unknown http_307", "http_307"),
    "redirect_other": ("unknown http_307", "http_307"),
    "429:7": ("unknown rate_limited", "rate_limited"),
    "503": ("unknown http_503", "http_503"),
    "503_forever": ("unknown http_503", "http_503"),
}


@pytest.mark.parametrize("fault", LIST_FAULTS)
async def test_a_list_that_cannot_be_read_is_never_absence(
    connect: Connect, sandbox: Box, payment_id: str, fault: str
) -> None:
    inspected, read = LIST_FAULTS[fault]
    gateway, request = connect(0.5), request_for(payment_id)
    assert told(await gateway.refund(request)) == "confirmed succeeded"
    await sandbox.fault("list", fault, payment_id, times=2)
    assert told(await gateway.find_refund(request)) == inspected
    if read is None:
        assert len(await gateway.refunds(payment_id)) == 1
    else:
        with pytest.raises(SystemUnavailable) as caught:
            await gateway.refunds(payment_id)
        assert (caught.value.system, caught.value.problem) == ("payments", read)


async def test_a_payment_that_cannot_be_read_is_no_fact(connect: Connect, sandbox: Box, payment_id: str) -> None:
    unreadable = (fault for fault, (_, problem) in LIST_FAULTS.items() if problem is not None)
    for fault in [*unreadable, "delay:30"]:
        await sandbox.clear_faults()
        await sandbox.fault("get", fault, payment_id)
        with pytest.raises(SystemUnavailable):
            await connect(0.3).payment(payment_id)


REFUSED = {
    "more than was paid": ({"amount": 10_001}, Code.REMOTE_REFUSED),
    "nothing": ({"amount": 0}, Code.REMOTE_REFUSED),
    "a payment that is not known": ({"payment_id": "pay_unknown"}, Code.REMOTE_REFUSED),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_the_gateway_documents_as_not_executed_failed(
    gateway: PaymentGateway, sandbox: Box, payment_id: str, case: str
) -> None:
    changes, code = REFUSED[case]
    outcome = await gateway.refund(request_for(payment_id).model_copy(update=changes))
    assert told(outcome) == f"failed {code}"
    assert await sandbox.effects(payment_id) == []


async def test_a_disputed_payment_is_refused(gateway: PaymentGateway, sandbox: Box) -> None:
    payment_id = (await sandbox.order(disputed=True))["payments"][0]["payment_id"]
    assert told(await gateway.refund(request_for(payment_id))) == "failed REMOTE_REFUSED"
    payment = await gateway.payment(payment_id)
    assert payment is not None
    assert payment.disputed


async def test_a_refund_in_another_currency_than_was_paid_is_not_believed(
    gateway: PaymentGateway, payment_id: str
) -> None:
    assert told(await gateway.refund(request_for(payment_id, currency="EUR"))) == "unknown mismatched_currency"


async def test_nothing_sent_is_a_failure_and_a_wrong_key_too(
    request: pytest.FixtureRequest, sandbox: Box, client: httpx.AsyncClient, payment_id: str
) -> None:
    wanted = request_for(payment_id)
    wrong = payment_gateway("stripe", sandbox.endpoint(sandbox.gateway_url, key="wrong"), client, sandbox.egress)
    assert told(await wrong.refund(wanted)) == "failed AUTH_FAILED"
    assert told(await wrong.find_refund(wanted)) == "unknown auth_failed"
    with pytest.raises(SystemUnavailable, match=r"^payments: auth_failed$"):
        await wrong.payment(payment_id)
    elsewhere = payment_gateway("stripe", sandbox.endpoint("http://127.0.0.1:9"), client, sandbox.egress)
    outcome = await elsewhere.refund(wanted)
    assert isinstance(outcome, Failed)
    assert outcome.code is Code.NETWORK_UNREACHABLE
    assert outcome.exchange.problem == "egress_denied"
    assert told(await elsewhere.find_refund(wanted)) == "unknown egress_denied"
    assert await sandbox.effects(payment_id) == []


async def test_a_failure_carries_all_that_its_reply_says(connect: Connect, sandbox: Box, payment_id: str) -> None:
    await sandbox.fault("refund", "429:7", payment_id)
    outcome = await connect(5.0).refund(request_for(payment_id))
    assert isinstance(outcome, Failed)
    assert outcome.retry_after_seconds == outcome.explanation.retry_after_seconds == 7
    assert outcome.explanation.action == "retry_after_delay"
    assert "7 seconds" in REGISTRY[outcome.code].message.format_map(outcome.explanation.values)


async def test_a_payment_is_read_as_it_stands(gateway: PaymentGateway, sandbox: Box, payment_id: str) -> None:
    made = await gateway.refund(request_for(payment_id, amount=1_000))
    await sandbox.refund_in_dashboard(payment_id, 500)
    payment = await gateway.payment(payment_id)
    assert payment is not None
    assert payment.model_dump() == {
        "payment_id": payment_id,
        "currency": "USD",
        "captured_cents": 10_000,
        "refunded_cents": 1_500,
        "disputed": False,
        "method": "card",
        "last4": "4242",
    }
    assert isinstance(made, Confirmed)
    await sandbox.set_refund_status(made.remote_id, "failed")
    again = await gateway.payment(payment_id)
    assert again is not None
    assert again.refunded_cents == 500
    assert await gateway.payment("pay_unknown") is None
    assert list(await gateway.refunds("pay_unknown")) == []


async def test_a_late_failure_is_found(gateway: PaymentGateway, sandbox: Box, payment_id: str) -> None:
    request = request_for(payment_id)
    made = await gateway.refund(request)
    assert isinstance(made, Confirmed)
    await sandbox.set_refund_status(made.remote_id, "canceled")
    assert told(await gateway.find_refund(request)) == "failed REMOTE_REFUSED"


async def test_a_payment_intent_is_read_refunded_and_found_by_its_own_name(
    gateway: PaymentGateway, sandbox: Box
) -> None:
    intent = f"pi_{secrets.token_hex(8)}"
    await sandbox.order([intent])
    request = request_for(intent)
    assert told(await gateway.refund(request)) == "confirmed succeeded"
    assert told(await gateway.find_refund(request)) == "confirmed succeeded"
    payment = await gateway.payment(intent)
    assert payment is not None
    assert (payment.payment_id, payment.refunded_cents) == (intent, 1_234)
    assert await gateway.payment("pi_unknown") is None


async def test_all_pages_are_read(gateway: PaymentGateway, sandbox: Box, payment_id: str) -> None:
    request = request_for(payment_id)
    assert told(await gateway.refund(request)) == "confirmed succeeded"
    for _ in range(101):
        await sandbox.refund_in_dashboard(payment_id, 1)
    refunds = await gateway.refunds(payment_id)
    assert len({each.refund_id for each in refunds}) == 102
    assert [each.operation_id for each in refunds] == [None] * 101 + [request.operation_id]
    assert told(await gateway.find_refund(request)) == "confirmed succeeded"


async def test_a_refund_that_was_made_twice_is_a_persons_to_look_at(gateway: PaymentGateway, payment_id: str) -> None:
    request = request_for(payment_id)
    for key in ("key_one_" + secrets.token_hex(8), "key_two_" + secrets.token_hex(8)):
        await gateway.refund(request.model_copy(update={"idempotency_key": key}))
    assert told(await gateway.find_refund(request)) == "unknown found_twice"


def test_an_unknown_gateway_is_named_with_the_known_ones(sandbox: Box, client: httpx.AsyncClient) -> None:
    with pytest.raises(ValueError, match="unknown gateway nope; known are sandbox, stripe"):
        payment_gateway("nope", sandbox.endpoint(sandbox.gateway_url), client, sandbox.egress)
