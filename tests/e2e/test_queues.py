"""Each process holds the credentials of its queues and connects with the rights of its kind, and the service works."""

import dataclasses
import secrets
import subprocess
from collections.abc import Generator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from runtime.stack.postgres import Postgres
from tests.e2e.processes import Ground, Program, ground
from tests.e2e.running import Customer, RunningStack
from tests.roles import make_roles, url_as
from tests.service import until

GATEWAY_KEY, STORE_KEY = f"gateway-key-{secrets.token_hex(12)}", f"store-key-{secrets.token_hex(12)}"
HELPDESK_KEY = f"helpdesk-key-{secrets.token_hex(12)}"
KEYS = {"gateway": GATEWAY_KEY, "store": STORE_KEY, "helpdesk": HELPDESK_KEY}
# What the process of each queue is given; the payments queue reads orders to decide about refunds.
HOLDS: dict[str, dict[str, str]] = {
    "api": {},
    "workflows": {},
    "payments": {"COUNTERSEAL_SANDBOX_GATEWAY_KEY": GATEWAY_KEY, "COUNTERSEAL_STORE_KEY": STORE_KEY},
    "orders": {"COUNTERSEAL_STORE_KEY": STORE_KEY},
    "sealer": {},
}


@dataclass(frozen=True)
class Apart:
    """The service as processes apart."""

    stack: RunningStack
    processes: Mapping[str, subprocess.Popen[bytes]]
    ground: Ground


@pytest.fixture(scope="module")
def apart(
    postgres_server: Postgres, migrated_template: str, temporal_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Apart]:
    """An API that works nothing off by itself, a worker for each queue, and a sealer."""
    make_roles(postgres_server)
    keys = {f"{name}_key": each for name, each in KEYS.items()}
    folder = tmp_path_factory.mktemp("queues")
    with ground(postgres_server, migrated_template, temporal_server, folder, **keys) as over, ExitStack() as opened:

        def start(name: str, holds: dict[str, str]) -> Program:
            role = name if name in ("api", "sealer") else "worker"
            settings = {**holds, "COUNTERSEAL_DATABASE_URL": url_as(role, over.environment["COUNTERSEAL_DATABASE_URL"])}
            command = ["api"] if name == "api" else ["worker", "--queue", name]
            return opened.enter_context(over.program(name, command, settings))

        programs = [start(name, holds) for name, holds in HOLDS.items()]
        for each in programs:
            each.until_ready()
        stack = over.stack(programs[0])
        yield Apart(stack, {each.name: each.process for each in programs}, over)
        stack.http.close()


@pytest.fixture
def customer(apart: Apart) -> Customer:
    return apart.stack.order()


def test_each_process_is_given_what_its_queue_needs(apart: Apart) -> None:
    """As the system has it, not as this test does."""
    held = {
        name: {key for key, value in KEYS.items() if value.encode() in Path(f"/proc/{each.pid}/environ").read_bytes()}
        for name, each in apart.processes.items()
    }
    assert held == {
        "api": set(),
        "workflows": set(),
        "payments": {"gateway", "store"},
        "orders": {"store"},
        "sealer": set(),
    }
    assert all(each.poll() is None for each in apart.processes.values())


def test_a_small_refund_runs_where_the_gateways_key_is(customer: Customer) -> None:
    reply = customer.refund(4_999)
    assert (reply.status_code, reply.json()["code"]) == (200, "OK")
    assert [each["amount"] for each in customer.effects()] == [4_999]
    assert customer.posts() == 1


def test_a_large_refund_waits_and_runs_after_approval(customer: Customer) -> None:
    parked = customer.refund(31_240)
    assert (parked.status_code, parked.json()["status"]) == (202, "pending_approval")
    assert customer.decide("approve").json() == {"status": "approved"}
    assert customer.progress(parked.json()["request_id"])["status"] == "executed"
    assert [each["amount"] for each in customer.effects()] == [31_240]
    assert customer.posts() == 1


def test_a_denial_ends_it(customer: Customer) -> None:
    parked = customer.refund(31_240).json()
    assert customer.decide("deny", "not damaged on the photo").json() == {"status": "denied"}
    assert customer.progress(parked["request_id"])["code"] == "USER_DENIED"
    assert customer.effects() == []


@pytest.mark.parametrize(
    ("paid", "amount", "decision"), [(50_000, 500, "notify"), (50_000, 31_240, "hold"), (1_000, 1_001, "refuse")]
)
def test_a_dry_run_says_what_would_be_decided(apart: Apart, paid: int, amount: int, decision: str) -> None:
    customer = apart.stack.order(paid=paid)
    arguments = {
        "order_id": customer.order_id,
        "amount_cents": amount,
        "currency": "USD",
        "reason_code": "damaged",
        "idempotency_key": secrets.token_hex(16),
    }
    body = {"tool": "issue_refund", "arguments": arguments, "dry_run": True}
    reply = customer.stack.post("/v1/tool-calls", customer.token, body).json()
    assert (reply.get("dry_run"), reply.get("decision")) == (True, decision), reply
    assert customer.effects() == []


def test_orders_are_read_and_cancelled_without_the_gateways_key(customer: Customer) -> None:
    read = customer.stack.post("/v1/tool-calls", customer.token, {"tool": "lookup_orders", "arguments": {}}).json()
    assert (read["code"], customer.order_id in str(read["result"])) == ("OK", True)
    opened = {
        "agent_id": "example-agent",
        "actor_id": "user_example",
        "customer_id": customer.customer_id,
        "tools": ["cancel_order"],
    }
    run = customer.stack.post("/v1/runs", customer.stack.info["service_token"], opened).json()["run_token"]
    arguments = {
        "order_id": customer.order_id,
        "reason_code": "no_longer_needed",
        "idempotency_key": secrets.token_hex(16),
    }
    body = {"tool": "cancel_order", "arguments": arguments}
    refused = dataclasses.replace(customer, token=run).stack.post("/v1/tool-calls", run, body).json()
    assert (refused["status"], refused["code"]) == ("refused", "INVALID_STATE"), "it was delivered, says the store"


def test_a_lost_answer_is_looked_up_where_the_gateways_key_is(apart: Apart, customer: Customer) -> None:
    apart.stack.fault("refund", "commit_then_drop", customer.payment_id)
    reply = customer.refund(2_500)
    assert (reply.status_code, reply.json()["status"]) == (200, "executed")
    assert customer.posts() == 1


def test_the_api_is_ready_and_says_which_queue_has_no_worker(apart: Apart) -> None:
    answer = apart.stack.http.get(f"{apart.stack.info['api']}/readyz")
    assert answer.status_code == 200
    pollers = {"workflows": True, "payments": True, "orders": True, "messages": False}
    assert answer.json() == {"database": True, "temporal": True, "pollers": pollers, "sealed": True}


async def test_everything_was_sealed_and_nobody_lacked_a_right(apart: Apart, customer: Customer) -> None:
    """After the tests above, and a refund that a person approved."""
    customer.refund(31_240)
    assert customer.decide("approve").is_success
    owner = await asyncpg.connect(
        apart.ground.environment["COUNTERSEAL_DATABASE_URL"], server_settings={"counterseal.tenant": "*"}
    )

    async def all_sealed() -> bool | None:
        found = "SELECT (SELECT count(*) FROM events) = (SELECT max(size) FROM seals)"
        return await owner.fetchval(found) or None

    await until(all_sealed)
    holders = await owner.fetch("SELECT name FROM leases WHERE ends_at > now() ORDER BY name")
    assert [row["name"] for row in holders] == ["healing", "sealing", "telling"]
    await owner.close()
    for name in apart.processes:
        assert "InsufficientPrivilege" not in (apart.ground.folder / f"{name}.log").read_text(), name
