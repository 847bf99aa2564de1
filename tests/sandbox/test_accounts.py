"""The store beside orders: accounts, credits, parcels, refund drafts, and putting an order back."""

import secrets
from typing import Any

import httpx
import pytest

from tests.sandbox.world import World


def write(world: World, method: str, path: str, body: dict[str, Any], key: str | None = None) -> httpx.Response:
    headers = {"Idempotency-Key": key or secrets.token_hex(8)}
    return world.store.request(method, path, json=body, headers=headers)


def test_an_account_tells_how_a_customer_stands_and_not_who_they_are(world: World) -> None:
    order = world.order(5_000, status="open", customer_id=f"cus_{secrets.token_hex(6)}")
    path = f"/customers/{order['customer_id']}"
    world.store.put(f"/_customers/{order['customer_id']}", json={**customer(order), "tier": "gold"})
    body = {"amount_cents": 700, "currency": "USD", "metadata": {"counterseal_operation": "op_1"}}
    first, again = (
        write(world, "POST", f"{path}/credits", body, "k"),
        write(world, "POST", f"{path}/credits", body, "k"),
    )
    assert first.json() == again.json()
    assert first.json()["balance_cents"] == 700
    account = world.store.get(f"{path}/account").json()
    assert account == {
        "customer_id": order["customer_id"],
        "since": order["placed_at"],
        "tier": "gold",
        "currency": "USD",
        "credit_cents": 700,
        "open_orders": 1,
        "fraud_flag": False,
    }
    assert "example.com" not in str(account)
    found = world.store.get(f"{path}/credits", params={"operation_id": "op_1"}).json()["credits"]
    assert found == [first.json()]
    assert world.store.get(f"{path}/credits", params={"operation_id": "op_2"}).json() == {"credits": []}


def customer(order: dict[str, Any]) -> dict[str, Any]:
    return {"customer_id": order["customer_id"], "name": "Ada Example", "email": "ada@example.com"}


def test_credit_is_for_known_customers_in_their_currency(world: World) -> None:
    order = world.order(5_000)
    world.store.put(f"/_customers/{order['customer_id']}", json=customer(order))
    euros = write(world, "POST", f"/customers/{order['customer_id']}/credits", {"amount_cents": 1, "currency": "EUR"})
    assert (euros.status_code, euros.json()["error"]["code"]) == (422, "invalid_request")
    nobody = write(world, "POST", "/customers/cus_nobody/credits", {"amount_cents": 1, "currency": "USD"})
    assert nobody.status_code == 404
    none = write(world, "POST", f"/customers/{order['customer_id']}/credits", {"amount_cents": 0, "currency": "USD"})
    assert none.status_code == 422


def test_a_draft_moves_no_money_and_is_found_by_its_operation(world: World) -> None:
    order = world.order(5_000)
    body = {
        "order_id": order["order_id"],
        "amount_cents": 2_000,
        "currency": "USD",
        "reason": "damaged",
        "metadata": {"counterseal_operation": "op_draft"},
    }
    draft = write(world, "POST", "/refund_drafts", body).json()
    assert world.store.get(f"/refund_drafts/{draft['draft_id']}").json() == draft
    assert (draft["order_id"], draft["customer_id"]) == (order["order_id"], order["customer_id"])
    found = world.store.get("/refund_drafts", params={"operation_id": "op_draft"}).json()
    assert found == {"refund_drafts": [draft]}
    effects = world.gateway.get("/_effects").json()["effects"]
    assert order["payments"][0]["payment_id"] not in {each["payment_id"] for each in effects}
    assert write(world, "POST", "/refund_drafts", {**body, "order_id": "ord_unknown"}).status_code == 404
    assert world.store.get("/refund_drafts/rfd_unknown").status_code == 404


def test_a_parcel_that_nobody_laid_in_is_what_its_order_says(world: World) -> None:
    tracking_id = f"T{secrets.token_hex(6)}"
    order = world.order(5_000, status="shipped", tracking_ids=[tracking_id])
    parcel = world.store.get(f"/shipments/{tracking_id}").json()
    assert (parcel["order_id"], parcel["state"], parcel["note"]) == (order["order_id"], "in_transit", None)
    laid = {**parcel, "state": "lost", "note": "The van broke down"}
    assert world.store.put(f"/_shipments/{tracking_id}", json=laid).json() == laid
    assert world.store.get(f"/shipments/{tracking_id}").json() == laid
    assert world.store.get("/shipments/unknown").status_code == 404


def test_an_order_is_put_back_as_it_was_laid_in(world: World) -> None:
    order = world.order(5_000, status="open")
    write(world, "POST", f"/orders/{order['order_id']}/cancel", {})
    reset = write(world, "POST", f"/orders/{order['order_id']}/reset", {"metadata": {"counterseal_operation": "op_r"}})
    assert (reset.json()["status"], reset.json()["version"]) == ("open", 3)
    assert [each["kind"] for each in reset.json()["operations"]] == ["cancel", "reset"]


@pytest.mark.parametrize(
    "path", ["/customers/cus_x/account", "/shipments/x", "/refund_drafts/x", "/customers/c/credits"]
)
def test_nothing_is_told_without_the_key(world: World, path: str) -> None:
    answer = world.store.get(path, headers={"Authorization": "Bearer wrong"})
    assert answer.status_code == 401
