"""A refund on a kept connection that the gateway closes just then: what was sent once is never sent again by itself."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import httpx
import pytest

from gateways.protocols import RefundRequest
from gateways.registry import payment_gateway
from schemas.effects import Unknown
from tests.gateways.peers.sandbox import SandboxPeer
from tests.gateways.test_http import Serve, read_request, response

CHARGE = {
    "id": "ch_1",
    "object": "charge",
    "amount_captured": 10_000,
    "amount_refunded": 0,
    "currency": "usd",
    "disputed": False,
    "payment_intent": None,
}
REQUEST = RefundRequest(
    payment_id="ch_1", amount=1_234, currency="USD", reason="damaged", operation_id="op_1", idempotency_key="key_1"
)


async def _closed_unread(reader: asyncio.StreamReader) -> bytes:
    """The request is on its way when the server, which has waited for long enough, closes."""
    return await reader.readexactly(1)


async def _closed_half_read(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


@pytest.mark.parametrize("last", [_closed_unread, _closed_half_read, read_request])
async def test_a_refund_on_a_connection_that_is_closed_meanwhile_is_sent_once(
    serve: Serve, client: httpx.AsyncClient, last: Callable[[asyncio.StreamReader], Awaitable[bytes]]
) -> None:
    connections: list[list[bytes]] = []

    async def close_at_the_second(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received: list[bytes] = []
        connections.append(received)
        received.append(await read_request(reader))
        writer.write(response(json.dumps(CHARGE).encode()))
        received.append(await last(reader))

    peer = SandboxPeer({"gateway": await serve(close_at_the_second)}, client)
    gateway = payment_gateway("stripe", peer.endpoint(), client, peer.egress)
    assert await gateway.payment("ch_1") is not None
    outcome = await gateway.refund(REQUEST)
    # It may have arrived, so it is to be looked up; and nothing sends it on another connection.
    assert isinstance(outcome, Unknown)
    assert outcome.exchange.reached == "bytes_sent"
    ((read, refund),) = connections
    assert (read[:3], refund[:1]) == (b"GET", b"P")
