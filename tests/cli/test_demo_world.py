"""The demo's fresh copies: accepted by the sandbox, known to its gateway, and never the same twice."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from pydantic import TypeAdapter

from runtime.demo.script import SCRIPT
from runtime.demo.world import World
from sandbox import demo_orders as demo
from sandbox.app import Keys, create_apps
from sandbox.state import open_state
from tools.facts import OrderId

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
ORDERS = [step.order for step in SCRIPT if step.order]


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    """(gateway, store)."""
    state = open_state(tmp_path / "sandbox.sqlite3")
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                httpx.AsyncClient(
                    transport=httpx.ASGITransport(app),
                    base_url="http://sandbox",
                    headers={"Authorization": "Bearer key"},
                )
            )
            for app in create_apps(state, Keys(gateway="key", store="key", helpdesk="key"))
        ]
        yield clients[0], clients[1]
    state.db.close()


def test_two_worlds_share_no_id() -> None:
    one, two = World.fresh(ORDERS, NOW), World.fresh(ORDERS, NOW)
    assert not {*one.order_ids.values(), *one.customer_ids.values()} & {
        *two.order_ids.values(),
        *two.customer_ids.values(),
        *one.order_ids,
        *one.customer_ids,
    }
    order_id = TypeAdapter(OrderId)
    assert all(order_id.validate_python(each) for each in one.order_ids.values())


def test_a_copy_is_its_original_under_other_names() -> None:
    world = World.fresh(ORDERS, NOW)
    assert set(world.order_ids) == set(ORDERS)
    originals = {order.order_id: order for order in demo.demo_orders(NOW)}
    for order in world.orders:
        (original,) = (originals[each] for each, copy in world.order_ids.items() if copy == order.order_id)
        assert order.customer_id == world.customer_ids[original.customer_id]
        names = {"order_id", "customer_id", "payments"}
        assert order.model_dump(exclude=names) == original.model_dump(exclude=names)
        assert order.payments[0].captured_cents == original.payments[0].captured_cents
    flagged = [person.customer_id for person in world.customers if person.fraud_flag]
    assert flagged == [world.customer_ids[demo.MALLORY]]


def test_an_order_that_was_refunded_before_is_not_copied() -> None:
    with pytest.raises(ValueError, match="refunded before"):
        World.fresh([demo.PARTLY_REFUNDED], NOW)


async def test_the_store_and_the_gateway_know_what_was_put(
    sandbox: tuple[httpx.AsyncClient, httpx.AsyncClient],
) -> None:
    gateway, store = sandbox
    world = World.fresh(ORDERS, NOW)
    await world.put_into(store)
    fraud = world.order_ids[demo.FRAUD_FLAGGED]
    order = (await store.get(f"/orders/{fraud}", params={"expand": "customer"})).json()
    assert order["customer"]["fraud_flag"] is True
    charge = (await gateway.get(f"/v1/charges/{world.payment_of(demo.PARKED_REFUND)}")).json()
    assert (charge["amount"], charge["amount_refunded"]) == (41_000, 0)
