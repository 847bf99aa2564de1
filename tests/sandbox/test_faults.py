"""Each fault as the caller's socket sees it, and what really happened all the same."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest

from tests.sandbox.world import GATEWAY_KEY, World


def raw_refund(world: World, payment: str) -> socket.socket:
    """A refund request on a socket of its own, sent and not yet answered."""
    body = f"charge={payment}&amount=1000".encode()
    head = f"POST /v1/refunds HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {GATEWAY_KEY}\r\n"
    url = urlsplit(world.ready["gateway"])
    sock = socket.create_connection((url.hostname, url.port), timeout=5)
    sock.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    return sock


@pytest.mark.parametrize(("do", "happened"), [("commit_then_drop", 1), ("drop_before_read", 0)])
def test_the_connection_is_closed_without_a_byte(world: World, do: str, happened: int) -> None:
    payment = world.payment()
    world.fault(do)
    with raw_refund(world, payment) as sock:
        assert sock.recv(100) == b""
    assert len(world.effects(payment)) == happened
    assert world.last_request()["status"] is None
    assert world.last_request()["done"] == ("created" if happened else "nothing") + f"; {do}"


def test_the_connection_is_reset(world: World) -> None:
    payment = world.payment()
    world.fault("reset")
    with raw_refund(world, payment) as sock, pytest.raises(ConnectionResetError):
        sock.recv(100)
    assert world.effects(payment) == []


def test_the_answer_drips_for_ever(world: World) -> None:
    payment = world.payment()
    world.fault("slow_drip")
    with raw_refund(world, payment) as sock:
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(4096)
        assert head.startswith(b"HTTP/1.1 200")
        assert b"chunked" in head
        started = time.monotonic()
        dripped = [sock.recv(100), sock.recv(100)]
        assert time.monotonic() - started > 0.8
    assert b"" not in dripped
    assert len(world.effects(payment)) == 1


@pytest.mark.parametrize("operation", ["list", "get"])
def test_reads_are_dropped_too(world: World, operation: str) -> None:
    payment = world.payment()
    world.fault("commit_then_drop", operation)
    with pytest.raises(httpx.RemoteProtocolError):
        world.refunds(payment) if operation == "list" else world.charge(payment)
    assert world.refunds(payment) == []


def test_a_delay_commits_first_and_keeps_the_key_in_use(world: World) -> None:
    payment = world.payment()
    key = f"delay-{payment}"
    world.fault("delay:0.8")
    with ThreadPoolExecutor() as pool:
        started = time.monotonic()
        slow = pool.submit(world.refund, payment, key=key)
        while not world.effects(payment):
            assert time.monotonic() - started < 0.8
        in_use = world.refund(payment, key=key)
        assert (in_use.status_code, in_use.json()["error"]["code"]) == (409, "idempotency_key_in_use")
        assert in_use.headers["Stripe-Should-Retry"] == "true"
        assert slow.result().status_code == 200
        assert time.monotonic() - started >= 0.8
    replayed = world.refund(payment, key=key)
    assert replayed.headers["Idempotent-Replayed"] == "true"
    assert len(world.effects(payment)) == 1


@pytest.mark.parametrize("do", ["garbage", "html"])
def test_a_200_that_is_no_json(world: World, do: str) -> None:
    payment = world.payment()
    world.fault(do)
    answer = world.refund(payment, key=f"{do}-{payment}")
    assert answer.status_code == 200
    with pytest.raises(ValueError, match=r".*"):
        answer.json()
    assert ("text/html" in answer.headers["Content-Type"]) == (do == "html")
    assert world.refund(payment, key=f"{do}-{payment}").json()["id"] == world.effects(payment)[0]["refund_id"]


@pytest.mark.parametrize("operation", ["refund", "list", "get"])
def test_keys_come_twice_with_other_values(world: World, operation: str) -> None:
    payment = world.payment()
    world.fault("duplicate_keys", operation)
    if operation == "refund":
        text, keys = world.refund(payment).text, ("id", "amount", "status")
    elif operation == "list":
        text, keys = world.gateway.get("/v1/refunds", params={"charge": payment}).text, ("has_more",)
    else:
        text, keys = world.gateway.get(f"/v1/charges/{payment}").text, ("id", "amount", "status")
    assert [text.count(f'"{key}":') for key in keys] == [2] * len(keys)


def test_an_answer_with_another_amount_or_another_operation(world: World) -> None:
    payment = world.payment()
    world.fault("wrong_amount")
    world.fault("wrong_id")
    world.fault("wrong_id", "list")
    assert world.refund(payment, 1000).json()["amount"] == 1001
    other = world.refund(payment, 1000).json()
    assert other["amount"] == 1000
    assert other["metadata"]["counterseal_operation"] != f"op_{payment}"
    assert all(each["metadata"] != {"counterseal_operation": f"op_{payment}"} for each in world.refunds(payment))
    assert [each["amount"] for each in world.effects(payment)] == [1000, 1000]
    assert [each["operation_id"] for each in world.effects(payment)] == [f"op_{payment}"] * 2


@pytest.mark.parametrize("do", ["redirect_self", "redirect_other"])
def test_a_redirect_does_nothing(world: World, do: str) -> None:
    payment = world.payment()
    world.fault(do)
    answer = world.refund(payment)
    assert answer.status_code == 307
    assert (answer.headers["Location"] == "/v1/refunds") == (do == "redirect_self")
    assert world.effects(payment) == []


@pytest.mark.parametrize(("do", "code"), [("429:7", "rate_limit"), ("429:7:lock_timeout", "lock_timeout")])
def test_too_many_requests(world: World, do: str, code: str) -> None:
    payment = world.payment()
    world.fault(do)
    answer = world.refund(payment, key=f"429-{payment}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, code)
    assert answer.headers["Retry-After"] == "7"
    assert world.effects(payment) == []
    assert world.refund(payment, key=f"429-{payment}").status_code == 200


def test_503_once_and_503_until_cleared(world: World) -> None:
    payment = world.payment()
    world.fault("503", times=2)
    assert [world.refund(payment, 100).status_code for _ in range(3)] == [503, 503, 200]
    world.fault("503_forever")
    assert [world.refund(payment, 100).status_code for _ in range(3)] == [503, 503, 503]
    assert world.charge(payment)["amount_refunded"] == 100
    world.gateway.delete("/_faults")
    assert world.refund(payment, 100).status_code == 200


def test_pending_stays_and_pending_fails_at_the_next_look(world: World) -> None:
    payment = world.payment(2000)
    world.fault("pending")
    world.fault("pending_then_failed")
    stays, fails = (world.refund(payment, 1000).json() for _ in range(2))
    assert (stays["status"], fails["status"]) == ("pending", "pending")
    assert world.charge(payment)["amount_refunded"] == 2000
    assert [each["status"] for each in world.effects(payment)] == ["pending", "pending"]
    assert [each["status"] for each in world.refunds(payment)] == ["failed", "pending"]
    assert world.gateway.get(f"/v1/refunds/{fails['id']}").json()["status"] == "failed"
    assert world.charge(payment)["amount_refunded"] == 1000
    assert [each["status"] for each in world.effects(payment)] == ["pending", "failed"]


def test_the_list_shows_it_late(world: World) -> None:
    payment = world.payment()
    world.fault("late_visible:0.8")
    committed = time.monotonic()
    with pytest.raises(httpx.RemoteProtocolError):
        world.refund(payment)
    assert world.refunds(payment) == []
    assert len(world.effects(payment)) == 1
    while not world.refunds(payment):
        assert time.monotonic() - committed < 5
    assert time.monotonic() - committed >= 0.8


@pytest.mark.parametrize(
    ("do", "status", "code"),
    [("in_use", 409, "idempotency_key_in_use"), ("already_refunded", 400, "charge_already_refunded")],
)
def test_refusals_with_which_nothing_happens(world: World, do: str, status: int, code: str) -> None:
    payment = world.payment()
    world.fault(do)
    answer = world.refund(payment, key=f"{do}-{payment}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert world.effects(payment) == []
    assert world.refund(payment, key=f"{do}-{payment}").status_code == 200


def test_the_script_applies_in_order_to_what_matches(world: World) -> None:
    mine, other = world.payment(), world.payment()
    refund = world.refund(mine, 100).json()["id"]
    world.faults(
        {"operation": "refund", "do": "503", "payment_id": mine},
        {"operation": "refund", "do": "429:1", "times": 2},
        {"operation": "get", "do": "503", "payment_id": mine, "times": 2},
    )
    assert world.gateway.get("/_faults").json()["faults"][1] == {"operation": "refund", "times": 2, "do": "429:1"}
    assert world.refund(other).status_code == 429
    assert world.refund(mine).status_code == 503
    assert [fault["times"] for fault in world.gateway.get("/_faults").json()["faults"]] == [1, 2]
    assert world.refund(mine).status_code == 429
    assert world.refund(mine).status_code == 200
    assert world.gateway.get(f"/v1/charges/{other}").status_code == 200
    assert world.gateway.get(f"/v1/refunds/{refund}").status_code == 503
    assert world.gateway.get(f"/v1/charges/{mine}").status_code == 503
    assert world.gateway.get("/_faults").json() == {"faults": []}


def test_a_request_without_the_key_uses_up_nothing(world: World) -> None:
    payment = world.payment()
    world.fault("503", "get")
    assert httpx.get(f"{world.ready['gateway']}/v1/charges/{payment}", trust_env=False).status_code == 401
    assert world.gateway.get(f"/v1/charges/{payment}").status_code == 503


def test_others_are_served_while_one_drips(world: World) -> None:
    payment = world.payment()
    world.fault("slow_drip", "get")
    served = threading.Event()
    with world.gateway.stream("GET", f"/v1/charges/{payment}") as dripping:
        assert dripping.status_code == 200
        assert world.refund(payment).status_code == 200
        served.set()
    assert served.is_set()
