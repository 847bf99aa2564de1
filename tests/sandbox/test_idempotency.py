"""The rules of idempotent requests, as pure decisions and through the endpoint."""

from pathlib import Path

import httpx
import pytest

from sandbox.app import Keys, create_apps
from sandbox.idempotency import KEPT_US, Stored, Verdict, fingerprint, judge
from sandbox.models import Order
from sandbox.orders import put_order
from sandbox.state import open_state, to_us
from tests.sandbox.world import World, order_line

STORED = Stored("same", 200, b"{}", "req_1", 1_000)


@pytest.mark.parametrize(
    ("stored", "wanted", "now", "in_flight", "verdict"),
    [
        (None, "same", 1_000, False, Verdict.FRESH),
        (STORED, "same", 1_000, False, Verdict.REPLAY),
        (STORED, "same", 1_000 + KEPT_US - 1, False, Verdict.REPLAY),
        (STORED, "same", 1_000 + KEPT_US, False, Verdict.FRESH),
        (STORED, "other", 1_000, False, Verdict.MISMATCH),
        (STORED, "other", 1_000 + KEPT_US, False, Verdict.FRESH),
        (None, "same", 1_000, True, Verdict.IN_USE),
        (STORED, "same", 1_000, True, Verdict.IN_USE),
    ],
)
def test_judge(stored: Stored | None, wanted: str, now: int, in_flight: bool, verdict: Verdict) -> None:
    assert judge(stored, wanted, now, in_flight=in_flight) is verdict


def test_fingerprint_ignores_the_order_of_parameters_and_nothing_else() -> None:
    first = fingerprint("POST", "/v1/refunds", {"a": "1", "b": "2"})
    assert first == fingerprint("POST", "/v1/refunds", {"b": "2", "a": "1"})
    others = [("PUT", "/v1/refunds", {"a": "1", "b": "2"}), ("POST", "/v1/x", {"a": "1", "b": "2"})]
    others += [("POST", "/v1/refunds", {"a": "1", "b": "3"}), ("POST", "/v1/refunds", {"a": "1"})]
    assert first not in {fingerprint(*other) for other in others}


def test_a_key_replays_its_first_answer(world: World) -> None:
    payment = world.payment()
    first, second = (world.refund(payment, key=f"replay-{payment}") for _ in range(2))
    assert second.status_code == 200
    assert second.content == first.content
    assert second.headers["Idempotent-Replayed"] == "true"
    assert second.headers["Original-Request"] == first.headers["Request-Id"]
    assert "Idempotent-Replayed" not in first.headers
    assert len(world.effects(payment)) == 1
    assert world.last_request()["done"] == "replayed"


def test_a_key_with_other_parameters_is_refused(world: World) -> None:
    payment = world.payment()
    world.refund(payment, 1000, key=f"other-{payment}")
    answer = world.refund(payment, 1001, key=f"other-{payment}")
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "idempotency_error"
    assert answer.headers["Stripe-Should-Retry"] == "false"
    assert len(world.effects(payment)) == 1


def test_an_executed_refusal_is_kept(world: World) -> None:
    payment = world.payment(500)
    refused = world.refund(payment, 501, key=f"refusal-{payment}")
    assert refused.status_code == 400
    again = world.refund(payment, 501, key=f"refusal-{payment}")
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.content == refused.content


def test_an_answer_of_500_is_kept(world: World) -> None:
    payment = world.payment()
    world.fault("commit_then_500")
    answers = [world.refund(payment, key=f"500-{payment}") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [500, 500]
    assert answers[1].headers["Idempotent-Replayed"] == "true"
    assert len(world.effects(payment)) == len(world.refunds(payment)) == 1


def test_invalid_parameters_are_not_kept(world: World) -> None:
    payment = world.payment()
    assert world.refund(payment, 0, key=f"invalid-{payment}").status_code == 400
    assert world.refund(payment, 700, key=f"invalid-{payment}").status_code == 200


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_a_key_of_impossible_length_is_refused(world: World, key: str) -> None:
    payment = world.payment()
    form = {"charge": payment, "amount": "100"}
    assert world.gateway.post("/v1/refunds", data=form, headers={"Idempotency-Key": key}).status_code == 400
    assert world.effects(payment) == []


async def test_a_key_is_forgotten_after_a_day(tmp_path: Path) -> None:
    now = to_us("2026-11-01T00:00:00Z")
    state = open_state(tmp_path, lambda: now)
    order = Order.model_validate(order_line(10_000))
    with state.transaction():
        put_order(state, order)
    gateway, *_ = create_apps(state, Keys(gateway="g", store="s", helpdesk="h"))
    transport = httpx.ASGITransport(app=gateway)
    headers = {"Authorization": "Bearer g", "Idempotency-Key": "one"}
    form = {"charge": order.payments[0].payment_id, "amount": "100"}
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as client:
        first = (await client.post("/v1/refunds", data=form)).json()["id"]
        now += KEPT_US - 1
        assert (await client.post("/v1/refunds", data=form)).json()["id"] == first
        now += 1
        assert (await client.post("/v1/refunds", data=form)).json()["id"] != first
    state.close()
