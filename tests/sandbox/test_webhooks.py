"""Webhooks as their receiver gets them: what they say, how they are signed, and how awkwardly they come."""

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from sandbox.state import open_state
from sandbox.webhooks import events, queue
from tests.sandbox.receiver import Arrived, Receiver, receiver
from tests.sandbox.world import World, start

SECRET = "whsec_for_tests"


@pytest.fixture
def hooks(world: World) -> Iterator[Receiver]:
    """The only endpoint that the sandbox has."""
    with receiver() as taker:
        put(world, taker)
        yield taker
        world.gateway.post("/_webhooks", json={"do": "release"})
        world.gateway.delete("/_webhooks").raise_for_status()


@pytest.fixture
def configured(tmp_path: Path) -> Iterator[tuple[World, Receiver]]:
    """A sandbox of its own, started with an endpoint."""
    with receiver() as taker:
        world = World(tmp_path / "data", "--webhook-url", taker.url, SANDBOX_WEBHOOK_SECRET=SECRET)
        yield world, taker
        if world.process.poll() is None:
            world.stop()


def put(world: World, taker: Receiver, secret: str = SECRET) -> None:
    world.gateway.put("/_webhooks", json={"url": taker.url, "secret": secret}).raise_for_status()


def act(world: World, do: str, **more: Any) -> dict[str, Any]:
    answer = world.gateway.post("/_webhooks", json={"do": do, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def attempts(world: World, event_id: str) -> list[dict[str, Any]]:
    all_ = world.gateway.get("/_webhooks/deliveries").json()["deliveries"]
    return [each for each in all_ if each["event_id"] == event_id]


def eventually(holds: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 15
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def quiet(world: World) -> None:
    """Waits until everything is delivered."""
    eventually(lambda: world.gateway.get("/_webhooks").json()["pending"] == 0)


def test_a_refund_is_told_of_with_whole_objects(world: World, hooks: Receiver) -> None:
    payment = world.payment(10_000)
    world.refund(payment, 1000)
    hooks.wait_for("refund.created", "charge.refunded")
    hooks.forget()
    answer = world.refund(payment, 2500, key=f"told-{payment}")
    arrived = hooks.wait_for("refund.created", "charge.refunded")
    created, charged = arrived["refund.created"].event, arrived["charge.refunded"].event
    assert created.pop("id").startswith("evt_")
    assert abs(created.pop("created") - time.time()) < 60
    assert created == {
        "object": "event",
        "api_version": "2024-10-28.acacia",
        "data": {"object": answer.json()},
        "livemode": False,
        "pending_webhooks": 1,
        "request": {"id": answer.headers["Request-Id"], "idempotency_key": f"told-{payment}"},
        "type": "refund.created",
    }
    assert charged["data"] == {"object": world.charge(payment), "previous_attributes": {"amount_refunded": 1000}}
    assert charged["data"]["object"]["amount_refunded"] == 3500


def test_the_signature_is_stripes(world: World, hooks: Receiver) -> None:
    world.refund(world.payment())
    for each in hooks.wait_for("refund.created", "charge.refunded").values():
        assert [name for name, _ in each.signature] == ["t", "v1", "v0"]
        assert each.is_signed_by(SECRET)
        assert not each.is_signed_by("whsec_of_another")
        assert abs(each.at - time.time()) < 60


def test_while_secrets_rotate_there_is_a_signature_by_each(world: World, hooks: Receiver) -> None:
    put(world, hooks, f"{SECRET}, whsec_next")
    world.refund(world.payment())
    arrived = hooks.wait_for("refund.created")["refund.created"]
    assert arrived.is_signed_by(SECRET)
    assert arrived.is_signed_by("whsec_next")
    standing = world.gateway.get("/_webhooks")
    assert [each["url"] for each in standing.json()["endpoints"]] == [hooks.url]
    assert SECRET not in standing.text


def test_nothing_is_told_of_what_did_not_happen(world: World, hooks: Receiver) -> None:
    payment = world.payment(1000)
    world.fault("503")
    assert world.refund(payment).status_code == 503
    assert world.refund(payment, 2000).status_code == 400
    first = world.refund(payment, 400, key=f"once-{payment}")
    hooks.wait_for("refund.created", "charge.refunded")
    hooks.forget()
    assert world.refund(payment, 400, key=f"once-{payment}").content == first.content
    last = world.refund(payment, 500).json()["id"]
    arrived = hooks.wait(lambda all_: any(each.event["data"]["object"]["id"] == last for each in all_))
    refunds = {each.event["data"]["object"]["id"] for each in arrived if each.event["type"] == "refund.created"}
    assert refunds <= {first.json()["id"], last}


def test_what_was_done_without_an_answer_is_told_of(world: World, hooks: Receiver) -> None:
    payment = world.payment()
    world.fault("commit_then_drop")
    with pytest.raises(httpx.RemoteProtocolError):
        world.refund(payment)
    refund = hooks.wait_for("refund.created")["refund.created"].event["data"]["object"]
    assert refund["metadata"] == {"counterseal_operation": f"op_{payment}"}
    assert refund["id"] == world.effects(payment)[0]["refund_id"]


def test_a_late_failure_is_told_of_as_nobodys_doing(world: World, hooks: Receiver) -> None:
    refund = world.refund(world.payment()).json()["id"]
    changed = world.gateway.post(f"/_refunds/{refund}", json={"status": "failed"}).json()
    arrived = hooks.wait_for("refund.failed", "refund.updated", "charge.refund.updated")
    failed, updated = arrived["refund.failed"].event, arrived["refund.updated"].event
    assert failed["data"] == {"object": changed}
    assert failed["request"] == {"id": None, "idempotency_key": None}
    assert updated["data"]["object"] == changed
    assert updated["data"]["previous_attributes"]["status"] == "succeeded"
    hooks.forget()
    world.gateway.post(f"/_refunds/{refund}", json={"status": "failed"}).raise_for_status()
    act(world, "unrelated")
    hooks.wait_for("balance.available")
    assert "refund.failed" not in hooks.types


def test_pending_refunds_come_to_their_end(world: World, hooks: Receiver) -> None:
    mine, other = world.payment(), world.payment()
    world.fault("pending", times=3)
    ids = [world.refund(payment, 100).json()["id"] for payment in (mine, mine, other)]
    done = world.gateway.post("/_refunds/pending", json={"payment_id": mine}).json()["refunds"]
    assert [(each["id"], each["status"]) for each in done] == [(ids[0], "succeeded"), (ids[1], "succeeded")]
    updated = hooks.wait_for("refund.updated")["refund.updated"].event["data"]
    assert updated["previous_attributes"]["status"] == "pending"
    assert ids[2] in [each["id"] for each in world.gateway.post("/_refunds/pending").json()["refunds"]]
    assert world.gateway.post("/_refunds/pending").json() == {"refunds": []}
    assert world.gateway.post("/_refunds/pending", json={"status": "lost"}).status_code == 422


def test_one_that_fails_when_looked_at_is_told_of(world: World, hooks: Receiver) -> None:
    payment = world.payment()
    world.fault("pending_then_failed")
    world.refund(payment)
    assert world.refunds(payment)[0]["status"] == "failed"
    hooks.wait_for("refund.failed")


def test_a_refund_in_the_dashboard_says_nothing_of_ours(world: World, hooks: Receiver) -> None:
    payment = world.payment(1000)
    made = world.gateway.post("/_refunds", json={"payment_id": payment, "amount": 400}).json()
    arrived = hooks.wait_for("refund.created", "charge.refunded")
    created = arrived["refund.created"].event
    assert created["data"]["object"] == made
    assert made["metadata"] == {}
    assert created["request"]["idempotency_key"] is None
    assert arrived["charge.refunded"].event["data"]["object"]["id"] == payment


def test_what_is_refused_comes_again_with_growing_pauses(world: World, hooks: Receiver) -> None:
    hooks.status = 503
    [event_id] = act(world, "unrelated")["events"]
    arrived = hooks.wait(lambda all_: len(all_) >= 4)
    hooks.status = 204
    hooks.wait(lambda all_: len(all_) >= 5)
    assert {each.body for each in arrived} == {arrived[0].body}
    done = eventually(lambda: world.gateway.get("/_webhooks").json()["pending"] == 0 and attempts(world, event_id))
    of_one = [each for each in done if each["delivery"] == done[0]["delivery"]]
    assert [each["status"] for each in of_one[:3]] == [503] * 3
    assert of_one[-1]["status"] == 204
    times = [datetime.fromisoformat(each["at"]).timestamp() for each in of_one]
    pauses = [after - before for before, after in pairwise(times)]
    assert all(later > earlier * 1.5 for earlier, later in pairwise(pauses))


def test_a_receiver_that_is_away_gets_it_when_it_is_back(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/hooks"
    world.gateway.put("/_webhooks", json={"url": url, "secret": SECRET}).raise_for_status()
    [event_id] = act(world, "unrelated")["events"]
    failed = eventually(lambda: attempts(world, event_id))
    assert (failed[0]["status"], failed[0]["error"]) == (None, "ConnectError")
    with receiver(port) as taker:
        taker.wait_for("balance.available")
    world.gateway.delete("/_webhooks")


def test_a_restart_goes_on_where_it_was_even_at_another_address(configured: tuple[World, Receiver]) -> None:
    world, away = configured
    away.status = 500
    payment = world.payment()
    refund = world.refund(payment).json()["id"]
    away.wait_for("refund.created", "charge.refunded")
    world.stop(signal.SIGKILL)
    with receiver() as moved:
        world.arguments = ("--webhook-url", moved.url)
        world.start()
        created = moved.wait_for("refund.created", "charge.refunded")["refund.created"]
        assert created.event["data"]["object"]["id"] == refund
        assert created.is_signed_by(SECRET)
        world.stop()


def test_without_an_endpoint_nothing_is_kept(configured: tuple[World, Receiver]) -> None:
    world, taker = configured
    act(world, "hold")
    world.refund(world.payment())
    world.stop()
    world.arguments = ()
    world.start()
    assert world.gateway.get("/_webhooks").json() == {
        "endpoints": [],
        "held": True,
        "before_answer": 0,
        "pending": 0,
    }
    assert act(world, "release")["pending"] == 0
    world.refund(world.payment())
    assert world.gateway.get("/_webhooks/deliveries").json() == {"deliveries": [], "pending": 0}
    assert taker.arrived == []
    for do in ("repeat", "reverse", "unknown_object", "unrelated", "forge"):
        assert world.gateway.post("/_webhooks", json={"do": do}).status_code == 409


def test_held_until_released_and_then_newest_first(world: World, hooks: Receiver) -> None:
    act(world, "hold")
    sent = [act(world, "unknown_object")["events"][0] for _ in range(6)]
    assert world.gateway.get("/_webhooks").json()["pending"] >= 6
    assert hooks.arrived == []
    act(world, "release", newest_first=True)
    arrived = hooks.wait(lambda all_: {each.event["id"] for each in all_} == set(sent))
    assert list(dict.fromkeys(each.event["id"] for each in arrived)) == sent[::-1]


def test_repeated_and_in_reverse(world: World, hooks: Receiver) -> None:
    sent = [act(world, "unknown_object")["events"][0] for _ in range(4)]
    quiet(world)
    before = [each.body for each in hooks.arrived]
    hooks.forget()
    assert act(world, "repeat", last=4)["events"] == sent
    quiet(world)
    assert len(hooks.arrived) == 4
    assert {each.body for each in hooks.arrived} == set(before)
    hooks.forget()
    act(world, "reverse", last=3)
    quiet(world)
    assert [each.event["id"] for each in hooks.arrived] == sent[:0:-1]


def test_events_come_in_no_certain_order_and_some_twice(world: World, hooks: Receiver) -> None:
    act(world, "hold")
    sent = [act(world, "unrelated")["events"][0] for _ in range(40)]
    act(world, "release")
    quiet(world)
    ids = [each.event["id"] for each in hooks.arrived]
    first = list(dict.fromkeys(ids))
    assert set(ids) == set(sent)
    assert first != sent
    assert len(ids) > len(first)


def test_about_objects_that_nobody_knows(world: World, hooks: Receiver) -> None:
    act(world, "unknown_object", operation_id="op_unknown")
    event = hooks.wait_for("refund.updated")["refund.updated"].event
    assert event["data"]["object"]["metadata"] == {"counterseal_operation": "op_unknown"}
    assert world.gateway.get(f"/v1/refunds/{event['data']['object']['id']}").status_code == 404


def _genuine(arrived: Arrived) -> bool:
    return bool(arrived.signature) and arrived.is_signed_by(SECRET) and abs(arrived.at - time.time()) < 300


@pytest.mark.parametrize(
    "how", ["wrong_signature", "old_timestamp", "future_timestamp", "no_signature", "altered_body"]
)
def test_forged_ones_are_not_genuine_and_come_once(world: World, hooks: Receiver, how: str) -> None:
    world.refund(world.payment())
    quiet(world)
    assert all(_genuine(each) for each in hooks.arrived)
    hooks.forget()
    hooks.status = 400
    [event_id] = act(world, "forge", how=how)["events"]
    quiet(world)
    [arrived] = hooks.arrived
    assert not _genuine(arrived)
    assert arrived.event["id"] == event_id
    assert eventually(lambda: [each for each in attempts(world, event_id) if each["forgery"]])[0]["status"] == 400
    assert world.gateway.get("/_webhooks").json()["pending"] == 0


def test_a_webhook_can_arrive_before_the_answer(world: World, hooks: Receiver) -> None:
    answered, early = threading.Event(), list[bool]()

    def on_arrival(arrived: Arrived) -> None:
        early.append(not answered.wait(0.3))

    hooks.on_arrival = on_arrival
    payment = world.payment()
    assert act(world, "before_answer", times=1)["before_answer"] == 1
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(world.refund, payment)
        asked.add_done_callback(lambda _: answered.set())
        assert asked.result().status_code == 200
    assert early[:2] == [True, True]
    assert world.gateway.get("/_webhooks").json()["before_answer"] == 0


def test_an_answer_does_not_wait_for_ever_for_a_webhook(world: World, hooks: Receiver) -> None:
    act(world, "hold")
    act(world, "before_answer")
    assert world.refund(world.payment()).status_code == 200


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/hooks",
        "https://127.0.0.1/hooks",
        "http://127.0.0.1.example.com/",
        "http://user@127.0.0.1/",
        "http://10.0.0.1/",
        "127.0.0.1",
        "",
    ],
)
def test_only_this_machine_gets_webhooks(world: World, url: str) -> None:
    answer = world.gateway.put("/_webhooks", json={"url": url, "secret": SECRET})
    assert answer.status_code == 422
    assert "loopback" in answer.text
    assert world.gateway.get("/_webhooks").json()["endpoints"] == []


@pytest.mark.parametrize(
    "body", [{"do": "explode"}, {"do": "repeat", "last": 0}, {"do": "forge", "how": "well"}, {"last": 1}, []]
)
def test_a_malformed_action_does_nothing(world: World, hooks: Receiver, body: Any) -> None:
    assert world.gateway.post("/_webhooks", json=body).status_code == 422
    assert hooks.arrived == []


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (("--webhook-url", "http://127.0.0.1:1/"), {}, "SANDBOX_WEBHOOK_SECRET is not set"),
        (
            (),
            {"SANDBOX_WEBHOOK_URL": "http://example.com/", "SANDBOX_WEBHOOK_SECRET": SECRET},
            "the webhooks' address must be an http URL on a loopback address",
        ),
    ],
)
def test_a_bad_endpoint_is_one_error_line(
    tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str], said: str
) -> None:
    process = start("--data", str(tmp_path), *arguments, **environment)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (1, f"sandbox: {said}\n")


def test_in_the_end_it_is_given_up(tmp_path: Path) -> None:
    now = 0
    with contextlib.closing(open_state(tmp_path, lambda: now)) as state:
        queue.configure(state, "http://127.0.0.1:1/", SECRET)
        events.record(state, "balance.available", {"object": "balance"})
        pauses: list[int] = []
        while waiting := queue.ready(state, 1):
            delivery, due = waiting[0]
            pauses.append(due - now)
            now = due
            queue.attempted(state, delivery, 500, None)
        assert len(pauses) == queue.ATTEMPTS
        assert pauses == sorted(pauses)
        assert pauses[-1] == queue.LONGEST_PAUSE_US
