"""The tools that change and list orders."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import pytest

from gateways.protocols import Systems
from schemas.calls import Binding
from schemas.codes import Code
from schemas.effects import Absent, Confirmed, Effect
from schemas.facts import Address, Order, Payment, Refund
from tools.catalog import Catalog
from tools.get_refund_history.tool import TOOL as GET_REFUND_HISTORY
from tools.get_refund_history.tool import GetRefundHistoryArguments, GetRefundHistoryResult
from tools.lookup_orders.tool import TOOL as LOOKUP_ORDERS
from tools.lookup_orders.tool import LookupOrdersArguments, LookupOrdersResult, OrderLine
from tools.orders import OrderChangeFacts, OrderChangeTool
from tools.protocol import Arguments, Refusal

ORDER = "ord_000000000001"
KEY = "0" * 32
ADDRESS = {"line1": "2 Sample Road", "city": "Shelbyville", "postal_code": "62565", "country": "US"}
START = datetime(2026, 1, 1, tzinfo=UTC)


class Outside(Protocol):
    """The `world` fixture."""

    systems: Systems
    binding: Binding
    payments: Any
    orders: Any

    def payment(self, payment_id: str = ..., **changes: Any) -> Payment: ...
    def order(self, order_id: str = ..., *, payments: Sequence[str] = ..., **changes: Any) -> Order: ...


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "cancel_order": ({"reason_code": "ordered_by_mistake"}, {"kind": "cancel", "reason": "ordered_by_mistake"}),
    "reinstate_order": ({}, {"kind": "reinstate"}),
    "change_shipping_address": (
        {"address": ADDRESS},
        {"kind": "change_shipping_address", "address": Address.model_validate(ADDRESS).model_dump()},
    ),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_is_decided_on_the_order_and_sent_as_it_was_fixed(
    catalog: Catalog, world: Outside, name: str
) -> None:
    entry = catalog.get(name)
    assert entry is not None
    tool: OrderChangeTool[Any] = entry.tool  # pyright: ignore[reportAssignmentType]  # told by the test's table
    given, sent = CHANGES[name]
    arguments = catalog.validate_arguments(name, {"order_id": ORDER, "idempotency_key": KEY, **given})
    assert isinstance(arguments, Arguments)

    unknown = await tool.read_facts(arguments, world.binding, world.systems)
    assert isinstance(unknown, Refusal)
    assert unknown.code is Code.ORDER_NOT_FOUND
    world.order(customer_id="cus_bruno")
    assert await tool.read_facts(arguments, world.binding, world.systems) == unknown

    world.order(status="open")
    facts = await tool.read_facts(arguments, world.binding, world.systems)
    assert isinstance(facts, OrderChangeFacts)
    assert set(facts.model_dump()) == {"order", "customer", "facts_at"}
    assert facts.order.status == "open"
    assert tool.check(arguments, facts) is None
    assert tool.claim(arguments, facts) is None
    assert ORDER in tool.title(arguments, facts)

    effect = Effect(
        request_id="act_1",
        tool=name,
        operation_id="op_1",
        gateway_key="key_1",
        target=tool.target(arguments, facts),
        intended_at=START,
    )
    assert isinstance(await tool.execute(effect, world.systems), Confirmed)
    assert isinstance(await tool.inspect(effect, world.systems), Absent)
    attempted, inspected = world.orders.changes
    assert attempted == inspected
    expected = {"order_id": ORDER, "operation_id": "op_1", "idempotency_key": "key_1", "reason": None, "address": None}
    assert attempted.model_dump() == expected | sent
    assert ORDER in tool.done(arguments, {"order_id": ORDER, "status": "cancelled"})


async def test_an_approval_of_a_change_rests_on_the_version_of_the_order(catalog: Catalog, world: Outside) -> None:
    entry = catalog.get("cancel_order")
    assert entry is not None
    tool: OrderChangeTool[Any] = entry.tool  # pyright: ignore[reportAssignmentType]
    arguments = catalog.validate_arguments(
        "cancel_order", {"order_id": ORDER, "idempotency_key": KEY, "reason_code": "other"}
    )
    seen: list[dict[str, Any]] = []
    for version in (4, 4, 5):
        world.order(version=version)
        facts = await tool.read_facts(arguments, world.binding, world.systems)
        assert isinstance(facts, OrderChangeFacts)
        seen.append(tool.matters(facts))
    assert seen[0] == seen[1] != seen[2]


async def look(world: Outside, **arguments: Any) -> LookupOrdersResult:
    result = await LOOKUP_ORDERS.read(LookupOrdersArguments(**arguments), world.binding, world.systems)
    assert isinstance(result, LookupOrdersResult)
    return result


def lay_out(world: Outside, number: int) -> None:
    """Orders 0…number-1, the later the newer; every third is open."""
    for n in range(number):
        status = "open" if n % 3 == 0 else "delivered"
        world.order(f"ord_{n:012}", status=status, placed_at=START + timedelta(hours=n))


async def test_orders_are_listed_newest_first_and_counted(world: Outside) -> None:
    lay_out(world, 12)
    world.order("ord_bruno0000000", customer_id="cus_bruno")
    result = await look(world)
    assert [each.order_id for each in result.orders] == [f"ord_{n:012}" for n in range(11, 1, -1)]
    assert (result.count, result.truncated) == (12, True)
    assert not (await look(world, limit=12)).truncated
    assert not LOOKUP_ORDERS.is_empty(result)


async def test_orders_of_a_status_are_picked_from_all(world: Outside) -> None:
    lay_out(world, 12)
    result = await look(world, limit=3, status="open")
    assert [each.order_id for each in result.orders] == ["ord_000000000009", "ord_000000000006", "ord_000000000003"]
    assert (result.count, result.truncated) == (4, True)
    assert LOOKUP_ORDERS.done(LookupOrdersArguments(status="open"), result) == "3 of 4 open orders of this customer"
    nothing = await look(world, status="cancelled")
    assert LOOKUP_ORDERS.is_empty(nothing)
    assert (nothing.count, nothing.truncated) == (0, False)


async def test_a_status_that_could_not_be_looked_for_everywhere_is_marked(world: Outside) -> None:
    lay_out(world, 101)
    assert (await look(world, status="cancelled")).truncated


async def test_an_order_line_is_compact_and_names_payments_only_where_there_are_several(world: Outside) -> None:
    items = ({"item_id": "1", "name": "Lamp", "quantity": 2, "price_cents": 700},)
    world.order(items=items, payments=["ch_1", "ch_2"], placed_at=START)
    result = (await look(world)).model_dump(mode="json")
    assert result["orders"][0] == {
        "order_id": ORDER,
        "status": "delivered",
        "placed_at": "2026-01-01T00:00:00Z",
        "currency": "USD",
        "paid_cents": 20_000,
        "items": [{"name": "Lamp", "quantity": 2, "price_cents": 700}],
        "tracking_ids": ["T1"],
        "disputed": False,
        "payment_ids": ["ch_1", "ch_2"],
    }
    world.order(payments=["ch_1"])
    assert (await look(world)).orders[0].payment_ids is None
    assert len(OrderLine.model_fields) <= 9


def refund(number: int, payment_id: str = "ch_1", **changes: Any) -> Refund:
    values = {
        "refund_id": f"re_{number}",
        "payment_id": payment_id,
        "amount_cents": 100,
        "currency": "USD",
        "status": "succeeded",
        "created_at": START + timedelta(minutes=number),
    }
    return Refund.model_validate(values | changes)


async def history(world: Outside) -> GetRefundHistoryResult | Refusal:
    return await GET_REFUND_HISTORY.read(GetRefundHistoryArguments(order_id=ORDER), world.binding, world.systems)


async def test_refunds_of_all_payments_are_listed_and_those_that_failed_do_not_count(world: Outside) -> None:
    world.order(payments=["ch_1", "ch_2"])
    world.payments.made += [
        refund(1),
        refund(4, status="failed"),
        refund(3, "ch_2", status="pending", amount_cents=50),
        refund(2, "ch_2", status="canceled"),
        refund(5, "ch_other"),
    ]
    result = await history(world)
    assert isinstance(result, GetRefundHistoryResult)
    assert [each.refund_id for each in result.refunds] == ["re_4", "re_3", "re_2", "re_1"]
    assert (result.refunded_cents, result.count, result.truncated) == (150, 4, False)
    assert result.model_dump(mode="json")["refunds"][1] == {
        "refund_id": "re_3",
        "amount_cents": 50,
        "status": "pending",
        "created_at": "2026-01-01T00:03:00Z",
    }


async def test_a_long_history_is_cut_but_summed_in_full(world: Outside) -> None:
    world.order()
    world.payments.made += [refund(n) for n in range(25)]
    result = await history(world)
    assert isinstance(result, GetRefundHistoryResult)
    assert (len(result.refunds), result.count, result.truncated, result.refunded_cents) == (20, 25, True, 2_500)


async def test_a_history_is_only_the_customers_own(world: Outside) -> None:
    unknown = await history(world)
    world.order(customer_id="cus_bruno")
    assert isinstance(unknown, Refusal)
    assert unknown == await history(world)
    world.order()
    result = await history(world)
    assert isinstance(result, GetRefundHistoryResult)
    assert GET_REFUND_HISTORY.is_empty(result)
