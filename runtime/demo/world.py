"""Fresh copies of the demo's orders and customers, so that a run is never influenced by an earlier one."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import httpx

from sandbox.demo_orders import demo_customers, demo_orders, payment_id
from sandbox.models import Customer, Order


@dataclass(frozen=True, slots=True)
class World:
    """Orders and customers of one run; `order_ids` and `customer_ids` map the demo's constants to theirs."""

    orders: tuple[Order, ...]
    customers: tuple[Customer, ...]
    order_ids: Mapping[str, str]
    customer_ids: Mapping[str, str]

    @classmethod
    def fresh(cls, order_ids: Iterable[str], now: datetime) -> "World":
        """Copies of these demo orders, and of all customers, under new ids; dates count back from `now`."""
        wanted = set(order_ids)
        originals = [order for order in demo_orders(now) if order.order_id in wanted]
        people = demo_customers()
        new_orders = {order.order_id: f"ord_Demo{os.urandom(4).hex()}" for order in originals}
        new_people = {person.customer_id: f"cus_Demo{os.urandom(6).hex()}" for person in people}
        return cls(
            tuple(_copied(order, new_orders[order.order_id], new_people[order.customer_id]) for order in originals),
            tuple(person.model_copy(update={"customer_id": new_people[person.customer_id]}) for person in people),
            new_orders,
            new_people,
        )

    def payment_of(self, order: str) -> str:
        """The (first) payment of the copy of a demo order."""
        return payment_id(self.order_ids[order])

    async def put_into(self, store: httpx.AsyncClient) -> None:
        """Lay everything into the sandbox store. Raises httpx.HTTPError."""
        for person in self.customers:
            await _put(store, f"/_customers/{person.customer_id}", person)
        for order in self.orders:
            await _put(store, f"/_orders/{order.order_id}", order)


def _copied(order: Order, order_id: str, customer_id: str) -> Order:
    if order.refunds:
        raise ValueError(f"{order.order_id} was refunded before: its copy would need refunds of its own")
    payments = [
        payment.model_copy(update={"payment_id": payment_id(order_id, n)})
        for n, payment in enumerate(order.payments, 1)
    ]
    return order.model_copy(update={"order_id": order_id, "customer_id": customer_id, "payments": payments})


async def _put(store: httpx.AsyncClient, path: str, line: Order | Customer) -> None:
    response = await store.put(path, content=line.model_dump_json(), headers={"Content-Type": "application/json"})
    response.raise_for_status()
