"""The process: start, ready file, loading, refusal to start, restart after being killed, stop."""

import contextlib
import json
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from sandbox import demo_orders
from sandbox.__main__ import main
from sandbox.loading import load_folder
from sandbox.orders import change_order, get_customer, get_order_line
from sandbox.state import open_state
from tests.sandbox.world import GATEWAY_KEY, KEYS, STORE_KEY, World, order_line

CUSTOMER: dict[str, Any] = {
    "customer_id": "cus_0123456789ab",
    "name": "Ada Example",
    "email": "ada@example.com",
    "fraud_flag": True,
}


@pytest.fixture
def own_world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "data")
    yield world
    if world.process.poll() is None:
        world.stop()


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs the program in this process, which it must leave with 1, and gives the error line."""
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)

    def run(*arguments: str | Path) -> str:
        assert main([str(argument) for argument in arguments]) == 1
        errors = capsys.readouterr().err
        assert errors.count("\n") == 1
        return errors.rstrip("\n")

    return run


def folder(path: Path, orders: list[str], customers: list[str]) -> Path:
    path.mkdir()
    (path / "orders.jsonl").write_text("".join(f"{line}\n" for line in orders))
    (path / "customers.jsonl").write_text("".join(f"{line}\n" for line in customers))
    return path


def test_everything_survives_sigkill(own_world: World) -> None:
    world = own_world
    payment = world.payment(5000)
    order = world.order(1000, status="open")["order_id"]
    cancel = {"Idempotency-Key": "cancel"}
    cancelled = world.store.post(f"/orders/{order}/cancel", headers=cancel)
    first = world.refund(payment, 1000, key="before")
    world.fault("503", times=3)
    assert world.refund(payment, 1000).status_code == 503
    before = [world.gateway.get(path).json() for path in ("/_effects", "/_requests", "/_faults")]
    world.stop(signal.SIGKILL)

    world.start()
    assert [world.gateway.get(path).json() for path in ("/_effects", "/_requests", "/_faults")] == before
    world.gateway.delete("/_faults")
    again = world.refund(payment, 1000, key="before")
    assert (again.content, again.headers["Idempotent-Replayed"]) == (first.content, "true")
    assert world.charge(payment)["amount_refunded"] == 1000
    assert world.store.post(f"/orders/{order}/cancel", headers=cancel).content == cancelled.content
    assert world.store.get(f"/orders/{order}").json()["status"] == "cancelled"


def test_sigint_stops_it_quickly_and_silently(own_world: World) -> None:
    own_world.charge("pay_none")
    started = time.monotonic()
    assert own_world.stop(signal.SIGINT) == (0, "")
    assert time.monotonic() - started < 3


def test_sigterm_stops_it_while_answers_drip(own_world: World) -> None:
    url = urlsplit(own_world.ready["gateway"])
    own_world.fault("slow_drip", "list")
    with socket.create_connection((url.hostname, url.port), timeout=5) as sock:
        sock.sendall(f"GET /v1/refunds HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {GATEWAY_KEY}\r\n\r\n".encode())
        assert sock.recv(100).startswith(b"HTTP/1.1 200")
        started = time.monotonic()
        assert own_world.stop()[0] == 0
        assert time.monotonic() - started < 10


def test_the_ready_file_tells_where_and_who(world: World) -> None:
    assert set(world.ready) == {"gateway", "store", "helpdesk", "pid"}
    assert world.ready["pid"] == world.process.pid


@pytest.mark.parametrize("option", ["--gateway-port", "--store-port", "--helpdesk-port"])
def test_a_taken_port_is_one_error_line(tmp_path: Path, refused: Callable[..., str], option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = refused("--data", tmp_path, option, port)
    assert line == f"sandbox: cannot listen on 127.0.0.1:{port}: Address already in use"


@pytest.mark.parametrize("name", sorted(KEYS))
def test_without_a_key_it_does_not_start(
    tmp_path: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv(name)
    assert refused("--data", tmp_path) == f"sandbox: {name} is not set"


def test_a_data_directory_that_cannot_be_used(tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / "file").touch()
    assert refused("--data", tmp_path / "file") == f"sandbox: cannot use {tmp_path}/file: FileExistsError"
    (tmp_path / "sandbox.sqlite3").write_text("no database at all" * 100)
    assert refused("--data", tmp_path) == f"sandbox: cannot use {tmp_path}: DatabaseError"


def test_a_store_is_loaded_and_what_happened_since_wins(tmp_path: Path) -> None:
    order, later = order_line(1000, status="open"), order_line(1000)
    store = folder(tmp_path / "store", [json.dumps(order), ""], [json.dumps(CUSTOMER)])
    with contextlib.closing(open_state(tmp_path / "data")) as state:
        load_folder(state, store)
        assert get_order_line(state, order["order_id"]) == order
        assert get_customer(state, CUSTOMER["customer_id"]) == CUSTOMER
        with state.transaction():
            change_order(state, order["order_id"], "cancel", None, {"status": "cancelled"})
    shutil.rmtree(store)
    folder(store, [json.dumps(order), json.dumps(later)], [json.dumps(CUSTOMER | {"name": "Other Example"})])
    with contextlib.closing(open_state(tmp_path / "data")) as state:
        load_folder(state, store)
        assert get_order_line(state, order["order_id"]) == order | {"status": "cancelled"}
        assert get_order_line(state, later["order_id"]) == later
        assert get_customer(state, CUSTOMER["customer_id"]) == CUSTOMER


def test_a_thousand_orders_load_in_well_under_a_second(tmp_path: Path) -> None:
    store = folder(tmp_path / "store", [json.dumps(order_line(1000)) for _ in range(1000)], [json.dumps(CUSTOMER)])
    with contextlib.closing(open_state(tmp_path / "data")) as state:
        started = time.process_time()
        load_folder(state, store)
        assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{", "Invalid JSON"),
        (json.dumps(order_line(1) | {"currency": "dollars"}), "currency: "),
        (json.dumps({k: v for k, v in order_line(1).items() if k != "payments"}), "payments: Field required"),
        ("SAME", "order_id appears twice"),
        ("SAME PAYMENT", "already taken"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, refused: Callable[..., str], bad: str, reason: str) -> None:
    good = order_line(1)
    text = {"SAME": json.dumps(good), "SAME PAYMENT": json.dumps(order_line() | {"payments": good["payments"]})}
    store = folder(tmp_path / "store", [json.dumps(good), "", text.get(bad, bad)], [])
    line = refused("--data", tmp_path / "data", "--store", store)
    assert line.startswith(f"sandbox: {store}/orders.jsonl:3: ")
    assert reason in line


def test_a_folder_without_the_files_is_named(tmp_path: Path, refused: Callable[..., str]) -> None:
    line = refused("--data", tmp_path / "data", "--store", tmp_path)
    assert line == f"sandbox: {tmp_path}/customers.jsonl: cannot be read as UTF-8 text"


def test_the_demo_orders_are_what_their_names_say(world: World) -> None:
    now = datetime.now(UTC)

    def age(order_id: str) -> timedelta:
        return now - datetime.fromisoformat(world.store.get(f"/orders/{order_id}").json()["placed_at"])

    names = [name for name in vars(demo_orders) if str(getattr(demo_orders, name)).startswith("ord_")]
    assert len(names) >= 20
    for name in names:
        order = world.store.get(f"/orders/{getattr(demo_orders, name)}?expand=customer").json()
        assert (order["customer"]["fraud_flag"]) == (name == "FRAUD_FLAGGED")
        assert (order["status"] == "open") == name.startswith("OPEN_")
        assert (timedelta(hours=24) > age(order["order_id"])) == (name == "TOO_NEW" or order["status"] == "open")
        for payment in order["payments"]:
            charge = world.charge(payment["payment_id"])
            assert charge["amount"] == payment["captured_cents"]
            assert charge["disputed"] == (name == "DISPUTED")
            assert (charge["amount_refunded"] > 0) == (name in {"PARTLY_REFUNDED", "CANCELLED"})
    assert world.charge(demo_orders.payment_id(demo_orders.PARKED_REFUND))["amount"] == 41_000
    assert world.charge(demo_orders.payment_id(demo_orders.IN_EUROS))["currency"] == "eur"


def test_the_two_apps_are_on_their_own_ports(world: World) -> None:
    headers = {"Authorization": f"Bearer {STORE_KEY}"}
    assert httpx.get(f"{world.ready['gateway']}/orders/x", headers=headers, trust_env=False).status_code == 404
    assert world.gateway.get("/_effects").status_code == 200
    assert world.store.get("/_effects").status_code == 404
