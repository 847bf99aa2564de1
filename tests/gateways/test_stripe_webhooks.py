"""Which webhooks are Stripe's, and what they tell."""

import asyncio
import hashlib
import hmac
import json
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from gateways.stripe_webhooks import OBJECTS, StripeWebhooks
from gateways.webhooks import NotGenuineError, Notice, WebhookReader
from tests.gateways.peers.localstripe import LocalStripe
from tests.gateways.peers.peer import Peer, Urls

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
OLD, NEW = SecretStr("whsec_old_secret_of_the_tests"), SecretStr("whsec_new_secret_of_the_tests")

REFUND: dict[str, Any] = {
    "id": "re_1",
    "object": "refund",
    "amount": 1_234,
    "charge": "ch_1",
    "currency": "usd",
    "metadata": {"counterseal_operation": "op_1"},
    "payment_intent": "pi_1",
    "status": "failed",
}
CHARGE: dict[str, Any] = {"id": "ch_1", "object": "charge", "payment_intent": "pi_1", "amount_refunded": 1_234}
DISPUTE: dict[str, Any] = {"id": "dp_1", "object": "dispute", "charge": "ch_1", "payment_intent": "pi_1"}


def event(type_: str, content: dict[str, Any], **changes: Any) -> bytes:
    shape = {"id": "evt_1", "object": "event", "api_version": "2024-10-28.acacia", "type": type_} | changes
    return json.dumps(shape | {"data": {"object": content}}, indent=2).encode()


BODY = event("refund.failed", REFUND)


def signature(body: bytes, secret: SecretStr, at: datetime = NOW) -> str:
    signed = f"{int(at.timestamp())}.".encode() + body
    return hmac.new(secret.get_secret_value().encode(), signed, hashlib.sha256).hexdigest()


def header(body: bytes, *signers: SecretStr, at: datetime = NOW) -> dict[str, str]:
    signatures = "".join(f",v1={signature(body, secret, at)}" for secret in signers)
    return {"stripe-signature": f"t={int(at.timestamp())}{signatures}"}


@pytest.fixture(scope="module")
def reader() -> WebhookReader:
    return StripeWebhooks((NEW, OLD))


async def refusal(reader: WebhookReader, headers: dict[str, str], body: bytes, now: datetime = NOW) -> str:
    with pytest.raises(NotGenuineError) as caught:
        await reader.read(headers, body, now)
    (word,) = caught.value.args
    return word


@pytest.mark.parametrize("type_", [name for name, shape in OBJECTS.items() if shape.__name__ == "_Refund"])
async def test_a_refund_is_named(reader: WebhookReader, type_: str) -> None:
    body = event(type_, REFUND)
    assert await reader.read(header(body, NEW), body, NOW) == Notice(
        event_id="evt_1", operation_id="op_1", refund_id="re_1", payment_id="pi_1", status="failed"
    )


@pytest.mark.parametrize(
    ("type_", "content", "payment_id"),
    [
        ("charge.refunded", CHARGE, "pi_1"),
        ("charge.refunded", CHARGE | {"payment_intent": None}, "ch_1"),
        ("charge.dispute.created", DISPUTE, "pi_1"),
        ("charge.dispute.updated", DISPUTE, "pi_1"),
        ("charge.dispute.closed", DISPUTE, "pi_1"),
        ("charge.dispute.funds_withdrawn", DISPUTE, "pi_1"),
        ("charge.dispute.funds_reinstated", DISPUTE | {"payment_intent": None}, "ch_1"),
    ],
)
async def test_a_payment_is_named(reader: WebhookReader, type_: str, content: dict[str, Any], payment_id: str) -> None:
    body = event(type_, content)
    assert await reader.read(header(body, NEW), body, NOW) == Notice(event_id="evt_1", payment_id=payment_id)


async def test_a_refund_by_hand_has_no_operation(reader: WebhookReader) -> None:
    body = event("refund.created", REFUND | {"metadata": {}, "payment_intent": None})
    assert await reader.read(header(body, NEW), body, NOW) == Notice(
        event_id="evt_1", refund_id="re_1", payment_id="ch_1", status="failed"
    )


@pytest.mark.parametrize(
    "body",
    [
        event("customer.created", {"id": "cus_1", "object": "customer"}),
        event("charge.succeeded", CHARGE),
        event("refund.reversed", REFUND),
        # The payload of Stripe's own tests of its libraries, and a thin event of its second API.
        b'{\n  "id": "evt_test_webhook",\n  "object": "event",\n  "data": { "object": { "id": "rdr_123", "object": '
        b'"terminal.reader" } }\n}',
        b'{"id": "evt_234", "object": "v2.core.event", "type": "v1.billing.meter.error_report_triggered"}',
        b"[]",
    ],
)
async def test_a_genuine_event_about_something_else_is_none(reader: WebhookReader, body: bytes) -> None:
    assert await reader.read(header(body, NEW), body, NOW) is None


@pytest.mark.parametrize(
    "body",
    [
        event("refund.failed", {"object": "refund"}),
        event("refund.failed", CHARGE),
        event("refund.failed", REFUND | {"id": "re_1/../x"}),
        event("refund.failed", REFUND | {"metadata": {"counterseal_operation": 1}}),
        event("charge.dispute.created", DISPUTE | {"charge": None, "payment_intent": None}),
        b"",
        b"{",
        b'{"id": "evt_1", "id": "evt_2"}',
        b'{"id": NaN}',
        b"\xff",
    ],
)
async def test_a_signed_body_that_cannot_be_read_is_refused(reader: WebhookReader, body: bytes) -> None:
    assert await refusal(reader, header(body, NEW), body) == "unreadable"


@pytest.mark.parametrize("signers", [(OLD,), (NEW,), (OLD, NEW), (SecretStr("whsec_other"), OLD)])
async def test_either_secret_is_taken_while_one_is_rolled(
    reader: WebhookReader, signers: tuple[SecretStr, ...]
) -> None:
    assert await reader.read(header(BODY, *signers), BODY, NOW) is not None


async def test_after_that_only_the_new_one(reader: WebhookReader) -> None:
    rolled = StripeWebhooks((NEW,))
    assert await rolled.read(header(BODY, OLD, NEW), BODY, NOW) is not None
    assert await refusal(rolled, header(BODY, OLD), BODY) == "signature_wrong"


STAMP = int(NOW.timestamp())
RIGHT = signature(BODY, NEW)
HEADERS = {
    None: "signature_missing",
    "": "signature_unreadable",
    "bad_header": "signature_unreadable",
    f"v1={RIGHT}": "signature_unreadable",
    f"t={STAMP}": "signature_unreadable",
    # A scheme that is not the current one must not be fallen back to.
    f"t={STAMP},v0={RIGHT}": "signature_unreadable",
    f"t={STAMP},v2={RIGHT}": "signature_unreadable",
    f"t={STAMP},t={STAMP},v1={RIGHT}": "signature_unreadable",
    f"t={STAMP}.0,v1={RIGHT}": "signature_unreadable",
    f"t=-{STAMP},v1={RIGHT}": "signature_unreadable",
    f"t={'9' * 400},v1={RIGHT}": "signature_unreadable",
    f"t={STAMP},v1=": "signature_wrong",
    f"t={STAMP},v1=bad_signature": "signature_wrong",
    f"t={STAMP},v1={RIGHT.upper()}": "signature_wrong",
    f"t={STAMP},v1={RIGHT[:-1]}": "signature_wrong",
    f"t={STAMP},v1={RIGHT}0": "signature_wrong",
    f"t={STAMP},v1=\u00e9\ud800": "signature_wrong",
    f"t={STAMP + 1},v1={RIGHT}": "signature_wrong",
    f"t=0{STAMP},v1={RIGHT}": "signature_wrong",
}


@pytest.mark.parametrize("given", HEADERS)
async def test_a_header_that_proves_nothing_is_refused(reader: WebhookReader, given: str | None) -> None:
    headers = {} if given is None else {"stripe-signature": given}
    assert await refusal(reader, headers, BODY) == HEADERS[given]


@pytest.mark.parametrize("given", [f"t={STAMP},v1=bad_signature,v1={RIGHT}", f"t={STAMP}, v1={RIGHT}, v0=x"])
async def test_other_signatures_beside_the_right_one_do_no_harm(reader: WebhookReader, given: str) -> None:
    assert await reader.read({"stripe-signature": given}, BODY, NOW) is not None


@pytest.mark.parametrize(
    ("late", "word"),
    [
        (timedelta(seconds=300), None),
        (timedelta(seconds=-300), None),
        (timedelta(seconds=301), "signature_too_old"),
        (timedelta(seconds=-301), "signature_too_new"),
    ],
)
async def test_a_genuine_webhook_is_taken_for_five_minutes(
    reader: WebhookReader, late: timedelta, word: str | None
) -> None:
    headers = header(BODY, NEW)
    if word is None:
        assert await reader.read(headers, BODY, NOW + late) is not None
    else:
        assert await refusal(reader, headers, BODY, NOW + late) == word


@settings(deadline=None)
@given(at=st.integers(0, len(BODY) - 1), flip=st.integers(1, 255))
async def test_any_flipped_byte_of_the_body_is_refused(reader: WebhookReader, at: int, flip: int) -> None:
    forged = BODY[:at] + bytes([BODY[at] ^ flip]) + BODY[at + 1 :]
    assert await refusal(reader, header(BODY, NEW), forged) == "signature_wrong"


@settings(deadline=None)
@given(at=st.integers(0, len(header(BODY, NEW)["stripe-signature"]) - 1), to=st.characters(max_codepoint=255))
async def test_any_changed_character_of_the_header_is_refused(reader: WebhookReader, at: int, to: str) -> None:
    genuine = header(BODY, NEW)["stripe-signature"]
    assume(genuine[at] != to)
    forged = genuine[:at] + to + genuine[at + 1 :]
    assert (await refusal(reader, {"stripe-signature": forged}, BODY)).startswith("signature_")


@settings(deadline=None)
@given(st.text(), st.binary())
@example(f"t={STAMP},v1={RIGHT}", BODY + b" ")
async def test_nothing_but_the_secret_makes_a_signature(reader: WebhookReader, given: str, body: bytes) -> None:
    assert (await refusal(reader, {"stripe-signature": given}, body)).startswith("signature_")


@pytest.mark.parametrize("without", [(), (SecretStr(""),), (NEW, SecretStr(""))])
def test_no_secret_or_an_empty_one_would_let_anybody_sign(without: tuple[SecretStr, ...]) -> None:
    with pytest.raises(ValueError, match=r"^webhooks need a secret that is not empty$"):
        StripeWebhooks(without)


async def test_what_another_program_signed_is_genuine(
    started: Callable[[type[Peer]], Urls],
    outside: httpx.AsyncClient,
    serve: Callable[[Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]], Awaitable[str]],
) -> None:
    arrived = asyncio.get_running_loop().create_future()

    async def receive(stream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await stream.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        arrived.set_result((headers, await stream.readexactly(int(headers["content-length"]))))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    peer = LocalStripe(started(LocalStripe), outside)
    wanted = {"url": await serve(receive), "secret": NEW.get_secret_value(), "events[]": "payment_intent.succeeded"}
    (await outside.post(f"{peer.url}/_config/webhooks/{secrets.token_hex(8)}", data=wanted)).raise_for_status()
    await peer.intent()
    async with asyncio.timeout(10):
        headers, body = await arrived
    now = datetime.now(UTC)
    # It is about a payment that was made, which is nothing to us.
    assert await StripeWebhooks((NEW,)).read(headers, body, now) is None
    assert await refusal(StripeWebhooks((OLD,)), headers, body, now) == "signature_wrong"
    assert await refusal(StripeWebhooks((NEW,)), headers, body + b"\n", now) == "signature_wrong"
