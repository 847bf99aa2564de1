"""The gateway's endpoints, its record and its control surface."""

from typing import Any

import httpx
import pytest

from tests.sandbox.world import GATEWAY_KEY, World


def test_only_the_key_opens_v1(world: World) -> None:
    payment = world.payment()
    url = f"{world.ready['gateway']}/v1/charges/{payment}"
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic !"}, {"Authorization": "Bearer"}):
        answer = httpx.get(url, headers=headers, trust_env=False)
        assert answer.status_code == 401
        assert answer.json()["error"]["type"] == "invalid_request_error"
    assert world.last_request()["done"] == "unauthorized"
    assert httpx.get(url, auth=(GATEWAY_KEY, ""), trust_env=False).status_code == 200


def test_a_refund_has_stripes_shape_and_is_recorded(world: World) -> None:
    payment = world.payment(10_000)
    answer = world.refund(payment, 2500, key=f"shape-{payment}", reason="requested_by_customer")
    refund = answer.json()
    expected = {"object": "refund", "amount": 2500, "currency": "usd", "charge": payment, "payment_intent": payment}
    expected |= {"status": "succeeded", "reason": "requested_by_customer"}
    assert expected.items() <= refund.items()
    assert refund["metadata"] == {"counterseal_operation": f"op_{payment}"}
    assert answer.headers["Request-Id"].startswith("req_")
    [effect] = world.effects(payment)
    assert effect.pop("at").endswith("Z")
    assert effect == {
        "refund_id": refund["id"],
        "payment_id": payment,
        "amount": 2500,
        "currency": "USD",
        "idempotency_key": f"shape-{payment}",
        "operation_id": f"op_{payment}",
        "status": "succeeded",
    }
    assert world.gateway.get(f"/v1/refunds/{refund['id']}").json() == refund


def test_charge_and_payment_intent_are_one_payment(world: World) -> None:
    order = world.order(8000, 4500, currency="EUR")
    first, second = (payment["payment_id"] for payment in order["payments"])
    assert world.refund(first, None).json()["amount"] == 8000
    charge = world.charge(first)
    assert (charge["amount"], charge["amount_refunded"], charge["refunded"]) == (8000, 8000, True)
    assert (charge["currency"], charge["metadata"]) == ("eur", {"order_id": order["order_id"]})
    assert charge["payment_method_details"]["card"]["last4"] == "4242"
    assert world.charge(second)["amount_refunded"] == 0
    intent = world.gateway.get(f"/v1/payment_intents/{second}").json()
    assert (intent["amount_received"], intent["latest_charge"]) == (4500, second)
    form = {"payment_intent": second, "amount": "100"}
    assert world.gateway.post("/v1/refunds", data=form).json()["charge"] == second


def test_earlier_refunds_and_disputes_of_the_order_count(world: World) -> None:
    order = world.order(8000)
    payment = order["payments"][0]["payment_id"]
    earlier = {
        "refund_id": f"re_{payment}",
        "payment_id": payment,
        "amount_cents": 3000,
        "refunded_at": "2026-10-18T00:00:00Z",
    }
    path = f"/_orders/{order['order_id']}"
    assert world.store.put(path, json=order | {"refunds": [earlier]}).status_code == 200
    assert world.charge(payment)["amount_refunded"] == 3000
    assert [refund["id"] for refund in world.refunds(payment)] == [f"re_{payment}"]
    assert world.refund(payment, 5001).status_code == 400
    assert world.refund(payment, 4000).status_code == 200
    assert world.store.put(path, json=order | {"refunds": [earlier], "disputed": True}).status_code == 200
    assert world.charge(payment)["disputed"] is True
    assert world.refund(payment, 100).json()["error"]["code"] == "charge_disputed"
    assert world.charge(payment)["amount_refunded"] == 7000


def test_no_more_than_was_captured_is_refunded(world: World) -> None:
    payment = world.payment(1000)
    over = world.refund(payment, 1001).json()["error"]
    assert (over["param"], over["message"]) == (
        "amount",
        "Refund amount ($10.01) is greater than unrefunded amount on charge ($10.00)",
    )
    assert world.refund(payment, 1000).status_code == 200
    assert world.refund(payment, 1).json()["error"]["code"] == "charge_already_refunded"
    assert len(world.effects(payment)) == 1


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ({"amount": "100"}, "parameter_missing"),
        ({"charge": "PAYMENT", "payment_intent": "PAYMENT"}, "parameters_exclusive"),
        ({"charge": "PAYMENT", "currency": "usd"}, "parameter_unknown"),
        ({"charge": "PAYMENT", "amount": "1.5"}, "parameter_invalid_integer"),
        ({"charge": "PAYMENT", "amount": "-5"}, "parameter_invalid_integer"),
        ({"charge": "PAYMENT", "amount": "0"}, "parameter_invalid_integer"),
        ({"charge": "PAYMENT", "amount": ""}, "parameter_invalid_empty"),
        ({"charge": "PAYMENT", "amount": "100000000"}, "amount_too_large"),
        ({"charge": "PAYMENT", "reason": "because"}, None),
        ({"charge": "PAYMENT", "metadata[k]": "v" * 501}, None),
    ],
)
def test_invalid_parameters(world: World, form: dict[str, str], code: str | None) -> None:
    payment = world.payment()
    answer = world.gateway.post("/v1/refunds", data={k: payment if v == "PAYMENT" else v for k, v in form.items()})
    assert answer.status_code == 400
    assert answer.json()["error"].get("code") == code
    assert world.effects(payment) == []


def test_json_and_repeated_parameters_are_refused(world: World) -> None:
    payment = world.payment()
    assert world.gateway.post("/v1/refunds", json={"charge": payment}).status_code == 400
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    body = f"charge={payment}&amount=1&amount=2"
    assert world.gateway.post("/v1/refunds", content=body, headers=headers).status_code == 400
    assert world.effects(payment) == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/charges/pay_none"),
        ("GET", "/v1/payment_intents/pay_none"),
        ("GET", "/v1/refunds/re_none"),
        ("GET", "/v1/refunds?charge=pay_none"),
        ("POST", "/v1/refunds"),
    ],
)
def test_what_does_not_exist_is_missing(world: World, method: str, path: str) -> None:
    form = {"charge": "pay_none", "amount": "1"} if method == "POST" else None
    answer = world.gateway.request(method, path, data=form)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "resource_missing"


def test_an_unknown_route_is_answered_and_recorded(world: World) -> None:
    assert world.gateway.delete("/v1/charges").status_code == 404
    request = world.last_request()
    assert (request["method"], request["path"], request["operation"]) == ("DELETE", "/v1/charges", None)


def test_the_list_is_newest_first_in_pages(world: World) -> None:
    payment = world.payment()
    ids = [world.refund(payment, 10 + n).json()["id"] for n in range(5)][::-1]
    first = world.gateway.get("/v1/refunds", params={"payment_intent": payment, "limit": 2}).json()
    assert ([each["id"] for each in first["data"]], first["has_more"]) == (ids[:2], True)
    rest = world.refunds(payment, limit="3", starting_after=ids[1])
    assert [each["id"] for each in rest] == ids[2:]
    assert world.refunds(payment, starting_after=ids[4]) == []
    for query in ({"limit": "0"}, {"limit": "101"}, {"ending_before": ids[0]}):
        assert world.gateway.get("/v1/refunds", params=query).status_code == 400


def test_the_list_is_bounded_by_when_refunds_were_made(world: World) -> None:
    payment = world.payment()
    made = world.refund(payment, 10).json()
    for bounds, found in (
        ({"gte": 0}, True),
        ({"gt": 0}, False),
        ({"lte": 0}, True),
        ({"lt": 0}, False),
        ({"gte": -5, "lt": 1}, True),
        ({"gt": -1, "lte": -1}, False),
    ):
        created = {f"created[{name}]": str(made["created"] + seconds) for name, seconds in bounds.items()}
        assert (made["id"] in [each["id"] for each in world.refunds(payment, **created)]) is found
    for wrong in ({"created[eq]": "1"}, {"created[gte]": "soon"}, {"created[lt]": "-1"}):
        assert world.gateway.get("/v1/refunds", params=wrong).status_code == 400


def test_requests_are_recorded_without_credentials(world: World) -> None:
    payment = world.payment()
    world.refund(payment, key=f"record-{payment}")
    request = world.last_request()
    assert set(request) == {"method", "path", "operation", "idempotency_key", "done", "status", "at"}
    assert (request["operation"], request["idempotency_key"]) == ("refund", f"record-{payment}")
    assert (request["done"], request["status"]) == ("created", 200)
    assert GATEWAY_KEY not in world.gateway.get("/_requests").text


def test_a_late_failure_gives_the_money_back(world: World) -> None:
    payment = world.payment(1000)
    refund = world.refund(payment, 1000).json()["id"]
    failed = world.gateway.post(f"/_refunds/{refund}", json={"status": "failed"}).json()
    assert (failed["status"], failed["failure_reason"]) == ("failed", "lost_or_stolen_card")
    assert world.charge(payment)["amount_refunded"] == 0
    assert world.effects(payment)[0]["status"] == "failed"
    assert world.refund(payment, 600).status_code == 200
    assert world.gateway.post(f"/_refunds/{refund}", json={"status": "succeeded"}).status_code == 400
    assert world.gateway.post(f"/_refunds/{refund}", json={"status": "lost"}).status_code == 422
    assert world.gateway.post("/_refunds/re_none", json={"status": "failed"}).status_code == 404


def test_a_refund_in_the_dashboard_is_no_effect_of_ours(world: World) -> None:
    payment = world.payment(1000)
    made = world.gateway.post("/_refunds", json={"payment_id": payment, "amount": 400}).json()
    assert (made["amount"], made["metadata"]) == (400, {})
    assert world.effects(payment) == []
    assert world.charge(payment)["amount_refunded"] == 400
    assert world.refund(payment, 601).status_code == 400
    assert world.gateway.post("/_refunds", json={"payment_id": payment, "amount": 601}).status_code == 400


@pytest.mark.parametrize(
    ("item", "named"),
    [
        ({"operation": "refund", "do": "explode"}, "explode"),
        ({"operation": "delete", "do": "reset"}, "operation"),
        ({"operation": "refund", "do": "reset", "times": 0}, "times"),
        ({"operation": "refund", "do": "reset", "often": 1}, "often"),
        ({"operation": "refund"}, "do"),
        ({"operation": "refund", "do": "delay"}, "delay:2"),
        ({"operation": "refund", "do": "429:soon"}, "429:2"),
        ({"operation": "refund", "do": "reset:1"}, "reset"),
        ({"operation": "list", "do": "pending"}, "pending"),
    ],
)
def test_a_malformed_fault_is_named_and_nothing_is_appended(world: World, item: dict[str, Any], named: str) -> None:
    good = {"operation": "refund", "do": "reset", "times": 1}
    answer = world.gateway.post("/_faults", json=[good, item])
    assert answer.status_code == 422
    assert answer.json()["error"]["message"].startswith("1")
    assert named in answer.json()["error"]["message"]
    assert world.gateway.get("/_faults").json() == {"faults": []}
