"""What every payment gateway adapter must do, played against every gateway that it is paired with."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from gateways.protocols import PaymentGateway, RefundRequest, SystemUnavailable
from gateways.registry import PAYMENT_GATEWAYS, payment_gateway
from sandbox.faults import KINDS
from schemas.codes import REGISTRY, Code
from schemas.effects import Absent, Attempt, Confirmed, Failed, Inspection, Unknown
from tests import loopback
from tests.gateways.peers.pairs import PAIRS, Pair, faults, pairs
from tests.gateways.peers.peer import Peer
from tests.gateways.peers.sandbox import SandboxPeer

Connect = Callable[[float], PaymentGateway]
Serve = Callable[[Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]], Awaitable[str]]


@pytest.fixture
def connect(pair: Pair, peer: Peer, client: httpx.AsyncClient) -> Connect:
    """The adapter under test with a deadline in seconds."""

    def build(deadline_seconds: float) -> PaymentGateway:
        endpoint = peer.endpoint(deadline_seconds=deadline_seconds)
        return payment_gateway(pair.adapter, endpoint, client, peer.egress)

    return build


@pytest.fixture
def gateway(connect: Connect) -> PaymentGateway:
    return connect(5.0)


@pytest.fixture
async def payment_id(peer: Peer) -> str:
    """A payment of 100.00 USD."""
    return await peer.payment()


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


def test_every_adapter_is_in_a_pair() -> None:
    assert {PAYMENT_GATEWAYS[pair.adapter] for pair in PAIRS} == set(PAYMENT_GATEWAYS.values())


@pairs()
async def test_a_refund_is_made_once_and_confirmed(gateway: PaymentGateway, peer: Peer, payment_id: str) -> None:
    request = request_for(payment_id)
    outcome = await gateway.refund(request)
    assert isinstance(outcome, Confirmed)
    assert outcome.result == {
        "refund_id": outcome.remote_id,
        "amount_cents": 1_234,
        "currency": "USD",
        "status": "succeeded",
    }
    assert outcome.exchange.reached == "response_received"
    (listed,) = await gateway.refunds(payment_id)
    assert outcome.remote_at == listed.created_at
    (made,) = await peer.made(payment_id)
    assert (made.refund_id, made.amount, made.currency) == (outcome.remote_id, 1_234, "USD")
    assert made.operation_id == request.operation_id
    assert await peer.sends(request.idempotency_key) == 1


@pairs()
async def test_looking_sends_nothing(gateway: PaymentGateway, peer: Peer, payment_id: str) -> None:
    request = request_for(payment_id)
    assert told(await gateway.find_refund(request)) == "absent"
    await gateway.refund(request)
    for _ in range(3):
        assert told(await gateway.find_refund(request)) == "confirmed succeeded"
    assert await peer.sends(request.idempotency_key) == 1
    assert len(await peer.made(payment_id)) == 1


@pairs()
async def test_a_refund_whose_answer_was_lost_is_found_again(
    pair: Pair, peer: Peer, gateway: PaymentGateway, client: httpx.AsyncClient, serve: Serve, payment_id: str
) -> None:
    url = await serve(lose_answers(peer.url))
    cut_off = payment_gateway(pair.adapter, peer.endpoint(url), client, loopback.egress(url))
    request = request_for(payment_id)
    assert told(await cut_off.refund(request)) == "unknown no_response"
    assert told(await gateway.find_refund(request)) == "confirmed succeeded"
    assert await peer.sends(request.idempotency_key) == 1
    assert [each.operation_id for each in await peer.made(payment_id)] == [request.operation_id]


def lose_answers(url: str) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """A network that brings requests to the peer, and of the answers to refunds nothing."""
    peer = httpx.URL(url)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, onward = await asyncio.open_connection(peer.host, peer.port)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        onward.write(head + await reader.readexactly(int(length.partition(b":")[2])))
        answer = await there.readuntil(b"\r\n\r\n")
        if b"refund" not in head.partition(b"\r\n")[0]:
            length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            writer.write(answer + await there.readexactly(int(length.partition(b":")[2])))
        onward.close()

    return handle


@pairs("keys")
async def test_the_same_key_again_is_the_same_refund(gateway: PaymentGateway, peer: Peer, payment_id: str) -> None:
    request = request_for(payment_id)
    first, second = await gateway.refund(request), await gateway.refund(request)
    assert isinstance(first, Confirmed)
    assert isinstance(second, Confirmed)
    assert first.remote_id == second.remote_id
    assert len(await peer.made(payment_id)) == 1


@pairs("keys")
async def test_the_same_key_for_another_refund_says_nothing_about_the_first(
    gateway: PaymentGateway, peer: Peer, payment_id: str
) -> None:
    request = request_for(payment_id)
    await gateway.refund(request)
    other = request.model_copy(update={"amount": 99})
    assert told(await gateway.refund(other)) == peer.key_taken
    assert len(await peer.made(payment_id)) == 1


@pairs()
async def test_a_note_of_any_length_goes_with_a_refund(gateway: PaymentGateway, peer: Peer, payment_id: str) -> None:
    request = request_for(payment_id, note="The parcel\u2019s label was torn \U0001f4e6 " * 40)
    assert told(await gateway.refund(request)) == "confirmed succeeded"
    assert len(await peer.made(payment_id)) == 1


@pairs()
async def test_amounts_without_decimals_are_whole(gateway: PaymentGateway, peer: Peer) -> None:
    payment_id = await peer.payment(9_899, "JPY")
    assert told(await gateway.refund(request_for(payment_id, amount=9_899, currency="JPY"))) == "confirmed succeeded"
    (made,) = await peer.made(payment_id)
    assert (made.amount, made.currency) == (9_899, "JPY")


@pairs("three_decimals")
async def test_amounts_with_three_decimals_are_exact(gateway: PaymentGateway, peer: Peer) -> None:
    payment_id = await peer.payment(18_600, "KWD")
    assert told(await gateway.refund(request_for(payment_id, amount=18_600, currency="KWD"))) == "confirmed succeeded"
    (made,) = await peer.made(payment_id)
    assert (made.amount, made.currency) == (18_600, "KWD")


def test_every_fault_of_the_sandbox_is_in_the_tables() -> None:
    assert {each.partition(":")[0] for each in SandboxPeer.refund_faults} == set(KINDS)
    of_any_operation = {name for name, kind in KINDS.items() if not kind.only_refund}
    assert {each.partition(":")[0] for each in SandboxPeer.list_faults} == of_any_operation


@faults(lambda peer: peer.refund_faults)
async def test_a_fault_of_a_refund_is_classified(connect: Connect, peer: Peer, payment_id: str, fault: str) -> None:
    said, made, found = peer.refund_faults[fault]
    gateway, request = connect(0.5), request_for(payment_id)
    await peer.fault("refund", fault, payment_id)
    outcome = await gateway.refund(request)
    assert told(outcome) == said
    assert len(await peer.made(payment_id)) == made
    assert told(await gateway.find_refund(request)) == found
    assert await peer.sends(request.idempotency_key) <= 1
    assert outcome.exchange.elapsed_ms < 2_000


@faults(lambda peer: peer.refund_faults.keys() & {"late_visible:0.4"})
async def test_what_becomes_visible_late_is_found_late(
    connect: Connect, peer: Peer, payment_id: str, fault: str
) -> None:
    gateway, request = connect(5.0), request_for(payment_id)
    await peer.fault("refund", fault, payment_id)
    await gateway.refund(request)

    async def look() -> str:
        return told(await gateway.find_refund(request))

    assert await look() == "absent"
    await until(look, "confirmed succeeded")


@faults(lambda peer: peer.list_faults)
async def test_a_list_that_cannot_be_read_is_never_absence(
    connect: Connect, peer: Peer, payment_id: str, fault: str
) -> None:
    inspected, read = peer.list_faults[fault]
    gateway, request = connect(0.5), request_for(payment_id)
    assert told(await gateway.refund(request)) == "confirmed succeeded"
    await peer.fault("list", fault, payment_id, times=2)
    assert told(await gateway.find_refund(request)) == inspected
    if read is None:
        assert len(await gateway.refunds(payment_id)) == 1
    else:
        with pytest.raises(SystemUnavailable) as caught:
            await gateway.refunds(payment_id)
        assert (caught.value.system, caught.value.problem) == ("payments", read)


@faults(lambda peer: [fault for fault, (_, problem) in peer.list_faults.items() if problem])
async def test_a_payment_that_cannot_be_read_is_no_fact(
    connect: Connect, peer: Peer, payment_id: str, fault: str
) -> None:
    await peer.fault("get", fault, payment_id)
    with pytest.raises(SystemUnavailable):
        await connect(0.3).payment(payment_id)


@pytest.mark.parametrize("amount", [10_001, 0])
@pairs("bounds")
async def test_what_the_gateway_documents_as_not_executed_failed(
    gateway: PaymentGateway, peer: Peer, payment_id: str, amount: int
) -> None:
    assert told(await gateway.refund(request_for(payment_id, amount=amount))) == "failed REMOTE_REFUSED"
    assert await peer.made(payment_id) == []


@pairs()
async def test_a_payment_that_is_not_known_is_not_refunded(gateway: PaymentGateway, peer: Peer) -> None:
    assert told(await gateway.refund(request_for(peer.unknown_payment))) == "failed REMOTE_REFUSED"


@pairs("disputes", "reads_payments")
async def test_a_disputed_payment_is_refused(gateway: PaymentGateway, peer: Peer) -> None:
    payment_id = await peer.disputed_payment()
    assert told(await gateway.refund(request_for(payment_id))) == "failed REMOTE_REFUSED"
    payment = await gateway.payment(payment_id)
    assert payment is not None
    assert payment.disputed
    assert await peer.made(payment_id) == []


@pairs()
async def test_a_refund_in_another_currency_than_was_paid_is_not_believed(
    gateway: PaymentGateway, peer: Peer, payment_id: str
) -> None:
    assert told(await gateway.refund(request_for(payment_id, currency="EUR"))) == peer.other_currency


@pairs()
async def test_nothing_sent_is_a_failure_and_a_wrong_key_too(
    pair: Pair, peer: Peer, client: httpx.AsyncClient, payment_id: str
) -> None:
    wanted = request_for(payment_id)
    wrong = payment_gateway(pair.adapter, peer.endpoint(key="wrong"), client, peer.egress)
    assert told(await wrong.refund(wanted)) == "failed AUTH_FAILED"
    assert told(await wrong.find_refund(wanted)) == "unknown auth_failed"
    with pytest.raises(SystemUnavailable, match=r"^payments: auth_failed$"):
        await wrong.payment(payment_id)
    elsewhere = payment_gateway(pair.adapter, peer.endpoint("http://127.0.0.1:9"), client, peer.egress)
    outcome = await elsewhere.refund(wanted)
    assert isinstance(outcome, Failed)
    assert outcome.code is Code.NETWORK_UNREACHABLE
    assert outcome.exchange.problem == "egress_denied"
    assert told(await elsewhere.find_refund(wanted)) == "unknown egress_denied"
    assert await peer.made(payment_id) == []


@faults(lambda peer: peer.refund_faults.keys() & {"429:7"})
async def test_a_failure_carries_all_that_its_reply_says(
    connect: Connect, peer: Peer, payment_id: str, fault: str
) -> None:
    await peer.fault("refund", fault, payment_id)
    outcome = await connect(5.0).refund(request_for(payment_id))
    assert isinstance(outcome, Failed)
    assert outcome.retry_after_seconds == outcome.explanation.retry_after_seconds == 7
    assert outcome.explanation.action == "retry_after_delay"
    assert "7 seconds" in REGISTRY[outcome.code].message.format_map(outcome.explanation.values)


@pairs("reads_payments")
async def test_a_payment_is_read_as_it_stands(gateway: PaymentGateway, peer: Peer, payment_id: str) -> None:
    await gateway.refund(request_for(payment_id, amount=1_000))
    await peer.refund_by_hand(payment_id, 500)
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
    assert await gateway.payment(peer.unknown_payment) is None
    assert list(await gateway.refunds(peer.unknown_payment)) == []


@pairs("late_status", "reads_payments")
async def test_a_late_failure_is_found_and_gives_the_money_back(
    gateway: PaymentGateway, peer: Peer, payment_id: str
) -> None:
    request = request_for(payment_id)
    made = await gateway.refund(request)
    assert isinstance(made, Confirmed)
    await peer.set_status(made.remote_id, "failed")
    assert told(await gateway.find_refund(request)) == "failed REMOTE_REFUSED"
    payment = await gateway.payment(payment_id)
    assert payment is not None
    assert payment.refunded_cents == 0


@pairs("payment_intents")
async def test_a_payment_intent_is_refunded_and_found_by_its_own_name(gateway: PaymentGateway, peer: Peer) -> None:
    request = request_for(await peer.intent())
    assert told(await gateway.refund(request)) == "confirmed succeeded"
    assert told(await gateway.find_refund(request)) == "confirmed succeeded"


@pairs("payment_intents", "reads_payments")
async def test_a_payment_intent_is_read_by_its_own_name(gateway: PaymentGateway, peer: Peer) -> None:
    intent = await peer.intent()
    await gateway.refund(request_for(intent))
    payment = await gateway.payment(intent)
    assert payment is not None
    assert (payment.payment_id, payment.refunded_cents) == (intent, 1_234)
    assert await gateway.payment("pi_unknown") is None


@pairs()
async def test_all_pages_are_read(gateway: PaymentGateway, peer: Peer, payment_id: str) -> None:
    request = request_for(payment_id)
    assert told(await gateway.refund(request)) == "confirmed succeeded"
    for _ in range(101):
        await peer.refund_by_hand(payment_id, 1)
    refunds = await gateway.refunds(payment_id)
    assert len({each.refund_id for each in refunds}) == 102
    assert [each.operation_id for each in refunds if each.operation_id] == [request.operation_id]
    assert told(await gateway.find_refund(request)) == "confirmed succeeded"


@pairs("lists_by_time")
async def test_refunds_are_listed_by_the_time_they_were_made(gateway: PaymentGateway, peer: Peer) -> None:
    """Of any payment, ours and those by hand, on every page; what was made at the end of the time is not in it."""
    first, second = await peer.payment(), await peer.payment()
    request = request_for(first)
    outcome = await gateway.refund(request)
    assert isinstance(outcome, Confirmed)
    assert outcome.remote_at is not None
    for _ in range(101):
        await peer.refund_by_hand(second, 1)
    since = outcome.remote_at
    listed = await gateway.refunds_between(since, since + timedelta(hours=1))
    assert listed is not None
    (ours,) = [each for each in listed if each.operation_id == request.operation_id]
    assert (ours.refund_id, ours.amount_cents, ours.currency) == (outcome.remote_id, 1_234, "USD")
    assert (ours.status, ours.created_at) == ("succeeded", since)
    assert len([each for each in listed if each.payment_id == second]) == 101
    before = await gateway.refunds_between(since - timedelta(hours=1), since)
    assert ours.refund_id not in {each.refund_id for each in before or ()}


@pytest.mark.parametrize("pair", [each for each in PAIRS if each.adapter == "paypal"], ids=str)
async def test_a_gateway_without_a_list_by_time_says_so(gateway: PaymentGateway) -> None:
    now = datetime.now(UTC)
    assert await gateway.refunds_between(now - timedelta(days=1), now) is None


@pairs("lists_by_time")
async def test_a_list_by_time_that_cannot_be_read_is_no_list(pair: Pair, peer: Peer, client: httpx.AsyncClient) -> None:
    wrong = payment_gateway(pair.adapter, peer.endpoint(key="wrong"), client, peer.egress)
    now = datetime.now(UTC)
    with pytest.raises(SystemUnavailable, match=r"^payments: auth_failed$"):
        await wrong.refunds_between(now - timedelta(days=1), now)


@pairs("newest_first")
async def test_the_newest_refund_is_listed_first(gateway: PaymentGateway, peer: Peer, payment_id: str) -> None:
    request = request_for(payment_id)
    await peer.refund_by_hand(payment_id, 1)
    await gateway.refund(request)
    await peer.refund_by_hand(payment_id, 1)
    refunds = await gateway.refunds(payment_id)
    assert [each.operation_id for each in refunds] == [None, request.operation_id, None]


@pairs()
async def test_a_refund_that_was_made_twice_is_a_persons_to_look_at(gateway: PaymentGateway, payment_id: str) -> None:
    request = request_for(payment_id)
    for key in ("key_one_" + secrets.token_hex(8), "key_two_" + secrets.token_hex(8)):
        await gateway.refund(request.model_copy(update={"idempotency_key": key}))
    assert told(await gateway.find_refund(request)) == "unknown found_twice"


def test_an_unknown_gateway_is_named_with_the_known_ones(sandbox: SandboxPeer, client: httpx.AsyncClient) -> None:
    with pytest.raises(ValueError, match=rf"unknown gateway nope; known are {', '.join(sorted(PAYMENT_GATEWAYS))}"):
        payment_gateway("nope", sandbox.endpoint(), client, sandbox.egress)
