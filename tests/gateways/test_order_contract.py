"""What every order system adapter must do, played against a real order system."""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from gateways.protocols import OrderChange, OrderSystem, SystemUnavailable
from gateways.registry import ORDER_SYSTEMS, order_system
from gateways.store_accounts import OUTCOMES
from schemas.codes import REGISTRY, Code
from schemas.effects import Absent, Confirmed, Failed, Unknown
from schemas.facts import Address
from tests import loopback
from tests.gateways.peers.sandbox import SandboxPeer

ADDRESS = Address(
    line1="2 Sample Road", line2="Flat 3", city="Shelbyville", region="IL", postal_code="62565", country="US"
)


@pytest.fixture(params=sorted(ORDER_SYSTEMS))
def orders(request: pytest.FixtureRequest, sandbox: SandboxPeer, client: httpx.AsyncClient) -> OrderSystem:
    return order_system(request.param, sandbox.endpoint(sandbox.store_url), client, sandbox.egress)


def change_of(order: dict[str, Any], kind: str, **changes: Any) -> OrderChange:
    values = {
        "kind": kind,
        "order_id": order["order_id"],
        "operation_id": f"op_{secrets.token_hex(16)}",
        "idempotency_key": f"key_{secrets.token_hex(16)}",
        "address": ADDRESS if kind == "change_shipping_address" else None,
    }
    return OrderChange.model_validate(values | changes)


async def test_an_order_comes_with_its_customer_and_nothing_that_is_not_needed(
    orders: OrderSystem, sandbox: SandboxPeer
) -> None:
    put = await sandbox.order()
    order = await orders.order(put["order_id"])
    assert order is not None
    assert order.customer is not None
    assert order.customer.model_dump() == {
        "customer_id": put["customer_id"],
        "name": "Ada Example",
        "fraud_flag": False,
    }
    assert order.placed_at.isoformat() == "2026-01-02T03:04:05+00:00"
    assert (order.status, order.currency, order.version) == ("delivered", "USD", 1)
    assert [each.model_dump() for each in order.payments] == put["payments"]
    assert "example.com" not in order.model_dump_json()


async def test_an_unknown_order_is_none(orders: OrderSystem) -> None:
    assert await orders.order("ord_000000000000") is None


async def test_orders_are_the_customers_newest_and_counted(orders: OrderSystem, sandbox: SandboxPeer) -> None:
    first = await sandbox.order(placed_at="2026-01-01T00:00:00Z")
    ids = [first["order_id"]]
    for day in (3, 2):
        placed_at = f"2026-01-0{day}T00:00:00Z"
        more = await sandbox.order(customer_id=first["customer_id"], placed_at=placed_at)
        ids.append(more["order_id"])
    found, total = await orders.orders(first["customer_id"], 2)
    assert [each.order_id for each in found] == [ids[1], ids[2]]
    assert total == 3
    assert await orders.orders("cus_nobody", 5) == ([], 0)


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("cancel", "open", "cancelled"),
        ("reinstate", "cancelled", "open"),
        ("change_shipping_address", "open", "open"),
    ],
)
async def test_a_change_is_made_once_confirmed_and_found(
    orders: OrderSystem, sandbox: SandboxPeer, kind: str, before: str, after: str
) -> None:
    put = await sandbox.order(status=before)
    change = change_of(put, kind)
    assert isinstance(await orders.find_change(change), Absent)
    outcome = await orders.change(change)
    assert isinstance(outcome, Confirmed)
    assert outcome.result == {"order_id": put["order_id"], "status": after}
    again = await orders.change(change)
    assert isinstance(again, Confirmed)
    assert (again.remote_id, again.result) == (outcome.remote_id, outcome.result)
    order = await orders.order(put["order_id"])
    assert order is not None
    assert (order.status, order.version) == (after, 2)
    if kind == "change_shipping_address":
        assert order.shipping_address == ADDRESS
    found = await orders.find_change(change)
    assert isinstance(found, Confirmed)
    assert found.result == outcome.result
    assert isinstance(await orders.find_change(change_of(put, kind)), Absent)


async def test_a_change_stays_found_when_the_order_has_moved_on(orders: OrderSystem, sandbox: SandboxPeer) -> None:
    put = await sandbox.order(status="open")
    cancel = change_of(put, "cancel")
    await orders.change(cancel)
    await orders.change(change_of(put, "reinstate"))
    found = await orders.find_change(cancel)
    assert isinstance(found, Confirmed)
    assert found.result["status"] == "open"


async def test_a_state_that_does_not_allow_the_change_is_named(orders: OrderSystem, sandbox: SandboxPeer) -> None:
    put = await sandbox.order(status="delivered")
    outcome = await orders.change(change_of(put, "cancel"))
    assert isinstance(outcome, Failed)
    assert outcome.code is Code.INVALID_STATE
    said = REGISTRY[outcome.code].message.format_map(outcome.explanation.values)
    assert said.startswith("The state of the record does not allow this: it is delivered.")


async def test_a_key_that_came_with_another_change_says_nothing(orders: OrderSystem, sandbox: SandboxPeer) -> None:
    put = await sandbox.order(status="open")
    change = change_of(put, "change_shipping_address")
    await orders.change(change)
    other = change.model_copy(update={"address": ADDRESS.model_copy(update={"city": "Ogdenville"})})
    outcome = await orders.change(other)
    assert isinstance(outcome, Unknown)
    assert outcome.exchange.problem == "http_409"


async def test_a_change_of_an_unknown_order_failed_and_is_never_absent(orders: OrderSystem) -> None:
    change = change_of({"order_id": "ord_000000000000"}, "cancel")
    outcome = await orders.change(change)
    assert isinstance(outcome, Failed)
    assert outcome.code is Code.REMOTE_REFUSED
    assert isinstance(await orders.find_change(change), Unknown)


async def test_a_wrong_key_is_told_as_such(sandbox: SandboxPeer, client: httpx.AsyncClient) -> None:
    put = await sandbox.order(status="open")
    wrong = order_system("store", sandbox.endpoint(sandbox.store_url, key="wrong"), client, sandbox.egress)
    outcome = await wrong.change(change_of(put, "cancel"))
    assert isinstance(outcome, Failed)
    assert outcome.code is Code.AUTH_FAILED
    for read in (wrong.order(put["order_id"]), wrong.orders(put["customer_id"], 1)):
        with pytest.raises(SystemUnavailable, match=r"^orders: auth_failed$"):
            await read


Serve = Callable[[Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]], Awaitable[str]]

ODD_ANSWERS = {
    "another order": (200, '{"order_id": "ord_other"}', "unknown unreadable"),
    "server error": (500, '{"error": {"code": "invalid_state"}}', "unknown http_500"),
    "a conflict of an unknown kind": (409, '{"error": {"code": "surprise"}}', "unknown http_409"),
    "a proxy's page": (403, "<html></html>", "unknown http_403"),
    "forbidden": (403, '{"error": {"code": "forbidden"}}', "failed REMOTE_FORBIDDEN"),
    "too many": (429, '{"error": {"code": "rate_limited"}}', "failed RATE_LIMITED"),
    "accepted": (202, "{}", "unknown http_202"),
    "moved": (301, "", "unknown http_301"),
}


@pytest.mark.parametrize("case", ODD_ANSWERS)
async def test_only_what_is_documented_as_not_done_failed(
    serve: Serve, sandbox: SandboxPeer, client: httpx.AsyncClient, case: str
) -> None:
    status, body, told = ODD_ANSWERS[case]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
        await writer.drain()

    base = await serve(answer)
    system = order_system("store", sandbox.endpoint(base), client, loopback.egress(base))
    outcome = await system.change(change_of({"order_id": "ord_000000000000"}, "cancel"))
    words = f"failed {outcome.code}" if isinstance(outcome, Failed) else f"unknown {outcome.exchange.problem}"
    assert words == told


LIES: dict[str, tuple[str, dict[str, Any], str]] = {
    "not cancelled": ("cancel", {"status": "open"}, "mismatched_state"),
    "still cancelled": ("reinstate", {"status": "cancelled"}, "mismatched_state"),
    "the old address": ("change_shipping_address", {"status": "open"}, "mismatched_state"),
    "another order": ("cancel", {"status": "cancelled", "order_id": "ord_000000000002"}, "mismatched_state"),
    "no operation": ("cancel", {"status": "cancelled", "operations": []}, "mismatched_operation"),
}


@pytest.mark.parametrize("case", LIES)
async def test_a_200_alone_is_not_believed(
    serve: Serve, sandbox: SandboxPeer, client: httpx.AsyncClient, case: str
) -> None:
    kind, lie, problem = LIES[case]
    word = "shipping_address" if kind == "change_shipping_address" else kind
    put = await sandbox.order(order_id=f"ord_{secrets.token_hex(6)}")
    change = change_of(put, kind)
    operations = [{"operation_id": change.operation_id, "kind": word, "at": "2026-01-01T00:00:00Z"}]
    body = json.dumps({**put, "version": 2, "operations": operations, **lie})

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}}")
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
        await writer.drain()

    base = await serve(answer)
    system = order_system("store", sandbox.endpoint(base), client, loopback.egress(base))
    outcome = await system.change(change)
    assert isinstance(outcome, Unknown)
    assert outcome.exchange.problem == problem


def test_no_server_error_and_no_redirect_is_listed_as_a_failure() -> None:
    assert all(400 <= status < 500 for status, _ in OUTCOMES)
