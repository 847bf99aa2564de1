"""The order store: reads, writes, idempotency and the control surface."""

import secrets
from typing import Any

import httpx
import pytest

from tests.sandbox.world import World, order_line

CUSTOMER = {"customer_id": "cus_0123456789ab", "name": "Ada Example", "email": "ada@example.com", "fraud_flag": False}
ADDRESS = {
    "line1": "2 Example Street",
    "line2": None,
    "city": "Elsewhere",
    "region": "NY",
    "postal_code": "10001",
    "country": "US",
}


def write(world: World, method: str, path: str, key: str | None = None, **body: Any) -> httpx.Response:
    return world.store.request(method, path, json=body, headers={"Idempotency-Key": key or secrets.token_hex(8)})


def test_only_the_key_opens_the_shop(world: World) -> None:
    order = world.order(1000)["order_id"]
    routes = [("GET", f"/orders/{order}"), ("GET", "/orders?customer_id=c"), ("GET", "/customers/c")]
    routes += [("POST", f"/orders/{order}/cancel"), ("PUT", f"/orders/{order}/shipping_address")]
    for method, path in routes:
        answer = httpx.request(method, world.ready["store"] + path, trust_env=False)
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_lines_come_back_as_they_were_put(world: World) -> None:
    line = order_line(1000)
    path = f"/_orders/{line['order_id']}"
    assert world.store.get(path).status_code == 404
    assert world.store.put(path, json=line).json() == line
    assert world.store.get(path).json() == line
    assert world.store.put("/_customers/cus_0123456789ab", json=CUSTOMER).json() == CUSTOMER
    assert world.store.get("/customers/cus_0123456789ab").json() == CUSTOMER
    assert world.store.get("/customers/cus_none").status_code == 404


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"status": None}, "status"),
        ({"placed_at": "2026-10-17T19:20:00"}, "placed_at"),
        ({"currency": "usd"}, "currency"),
        ({"surprise": 1}, "surprise"),
        ({"order_id": "ord_another00000"}, "order_id"),
        ({"payments": [{"payment_id": "p", "method": "card", "captured_cents": 1.5}]}, "captured_cents"),
    ],
)
def test_a_line_that_does_not_fit_is_refused(world: World, change: dict[str, Any], named: str) -> None:
    line = order_line(1000)
    answer = world.store.put(f"/_orders/{line['order_id']}", json=line | change)
    assert answer.status_code == 422
    assert named in answer.json()["error"]["message"]
    assert world.store.get(f"/_orders/{line['order_id']}").status_code == 404


def test_a_payment_belongs_to_one_order(world: World) -> None:
    first, second = world.order(1000), order_line(1000)
    taken = second | {"payments": first["payments"]}
    assert world.store.put(f"/_orders/{second['order_id']}", json=taken).status_code == 409
    assert world.charge(first["payments"][0]["payment_id"])["metadata"] == {"order_id": first["order_id"]}


def test_an_order_shows_version_operations_and_the_customer(world: World) -> None:
    line = world.order(1000, status="open")
    path = f"/orders/{line['order_id']}"
    assert world.store.get(path).json() == line | {"version": 1, "operations": []}
    world.store.put("/_customers/cus_0123456789ab", json=CUSTOMER)
    assert world.store.get(path, params={"expand": "customer"}).json()["customer"] == CUSTOMER
    assert world.store.get(path, params={"expand": "payments"}).status_code == 400
    assert world.store.get("/orders/ord_none").json()["error"]["code"] == "not_found"


def test_a_customers_orders_are_newest_first(world: World) -> None:
    customer = f"cus_{secrets.token_hex(6)}"
    ids = [world.order(1, customer_id=customer, placed_at=f"2026-10-1{day}T00:00:00Z")["order_id"] for day in (2, 5, 3)]
    answer = world.store.get("/orders", params={"customer_id": customer, "limit": 2}).json()
    assert [order["order_id"] for order in answer["orders"]] == [ids[1], ids[2]]
    assert answer["total"] == 3
    for query in ({}, {"customer_id": customer, "limit": "0"}, {"customer_id": customer, "limit": "x"}):
        assert world.store.get("/orders", params=query).status_code == 400


def test_writes_change_the_order_once_and_are_recorded(world: World) -> None:
    path = f"/orders/{world.order(1000, status='open')['order_id']}"
    moved = write(world, "PUT", f"{path}/shipping_address", shipping_address=ADDRESS).json()
    assert (moved["shipping_address"], moved["version"]) == (ADDRESS, 2)
    cancelled = write(world, "POST", f"{path}/cancel", metadata={"counterseal_operation": "op_1"}, reason="late")
    assert (cancelled.json()["status"], cancelled.json()["version"]) == ("cancelled", 3)
    assert write(world, "POST", f"{path}/reinstate").json()["status"] == "open"
    order = world.store.get(path).json()
    done = [(each["kind"], each["operation_id"]) for each in order["operations"]]
    assert done == [("shipping_address", None), ("cancel", "op_1"), ("reinstate", None)]
    assert order["version"] == 4


@pytest.mark.parametrize(
    ("status", "method", "action", "body"),
    [
        ("delivered", "POST", "cancel", {}),
        ("cancelled", "PUT", "shipping_address", {"shipping_address": ADDRESS}),
        ("open", "POST", "reinstate", {}),
    ],
)
def test_the_wrong_state_is_a_conflict(
    world: World, status: str, method: str, action: str, body: dict[str, Any]
) -> None:
    path = f"/orders/{world.order(1000, status=status)['order_id']}"
    answer = write(world, method, f"{path}/{action}", **body)
    assert answer.status_code == 409
    assert (answer.json()["error"]["code"], answer.json()["error"]["status"]) == ("invalid_state", status)
    assert world.store.get(path).json()["operations"] == []


def test_a_key_replays_its_first_answer_or_conflicts(world: World) -> None:
    path = f"/orders/{world.order(1000, status='open')['order_id']}"
    key = secrets.token_hex(8)
    first = write(world, "POST", f"{path}/cancel", key, reason="late")
    again = write(world, "POST", f"{path}/cancel", key, reason="late")
    assert (again.content, again.headers["Idempotent-Replayed"]) == (first.content, "true")
    for action, body in (("cancel", {"reason": "other"}), ("reinstate", {"reason": "late"})):
        other = write(world, "POST", f"{path}/{action}", key, **body)
        assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_conflict")
    assert world.store.get(path).json()["version"] == 2


def test_a_write_needs_a_key_and_a_body_that_fits(world: World) -> None:
    path = f"/orders/{world.order(1000, status='open')['order_id']}"
    assert world.store.post(f"{path}/cancel").json()["error"]["code"] == "idempotency_key_required"
    assert write(world, "POST", f"{path}/cancel", surprise=1).status_code == 422
    assert write(world, "PUT", f"{path}/shipping_address").status_code == 422
    assert write(world, "POST", "/orders/ord_none/cancel").status_code == 404
    assert world.store.get(path).json()["version"] == 1
