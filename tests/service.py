"""The service as its processes wire it, over the tests' servers and a sandbox of its own."""

import asyncio
import base64
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

import asyncpg
import httpx
import pytest
from opentelemetry import trace
from pydantic import JsonValue, SecretStr
from temporalio.client import Client, WorkflowHandle
from temporalio.common import TypedSearchAttributes
from temporalio.contrib.opentelemetry import ReplaySafeTracerProvider
from temporalio.testing import ActivityEnvironment

from activities.services import Services
from api.waiting import RESTING, Waiters
from gateways.protocols import Systems
from ledger.principals import OpenedRun, Principal
from ledger.records import CallRecord
from ledger.signing import DecisionSigner
from runtime.assembly import Core, activity_services, core
from runtime.settings import Settings
from runtime.stack.postgres import OWNER, Postgres
from runtime.telemetry import tracer_provider
from runtime.workers import effect_worker, workflow_sandbox, workflow_worker
from schemas.calls import ToolCallInput
from schemas.codes import Status
from schemas.decisions import Approval, HumanDecision, SignedDecision
from schemas.events import Recorded
from schemas.ids import key_hash, new_decision_id, new_request_id, workflow_id
from tests import loopback
from workflows.tool_call import search_attributes

T = TypeVar("T")

SANDBOX_KEY = "sandbox-key-of-the-tests"
# Histories in tests/workflows/histories are encrypted with it.
TEST_KEY = b"the key that tests encrypt with."
PATIENCE = 60.0
"""Seconds after which something that should have happened is given up; a busy machine is slow."""


async def until(look: Callable[[], Awaitable[T | None]]) -> T:
    """What `look` finds, as soon as it finds something."""
    async with asyncio.timeout(PATIENCE):
        while (found := await look()) is None:
            await asyncio.sleep(0.02)
        return found


@contextmanager
def sandbox_process(
    folder: Path, *, gateway_key: str = SANDBOX_KEY, store_key: str = SANDBOX_KEY, helpdesk_key: str = SANDBOX_KEY
) -> Generator["SandboxUrls"]:
    """A sandbox on real sockets."""
    ready = folder / "ready.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "sandbox", "--data", str(folder / "data"), "--ready-file", str(ready)],
        cwd=Path(__file__).parents[1],
        env={
            **os.environ,
            "SANDBOX_GATEWAY_KEY": gateway_key,
            "SANDBOX_STORE_KEY": store_key,
            "SANDBOX_HELPDESK_KEY": helpdesk_key,
        },
        stdout=subprocess.DEVNULL,
    )
    try:
        give_up = time.monotonic() + PATIENCE
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > give_up:
                pytest.fail("the sandbox did not start")
            time.sleep(0.02)
        content = json.loads(ready.read_text())
        yield SandboxUrls(content["gateway"], content["store"], content["helpdesk"])
    finally:
        process.terminate()
        process.wait(10)


@dataclass(frozen=True)
class SandboxUrls:
    gateway: str
    store: str
    helpdesk: str


@asynccontextmanager
async def fresh_database(server: Postgres, template: str) -> AsyncGenerator[str]:
    """URL of a copy of the database `template` that lives as long as this context."""
    name = f"test_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(server.superuser_url())
    try:
        await admin.execute(f"CREATE DATABASE {name} OWNER {OWNER} TEMPLATE {template} STRATEGY FILE_COPY")
        yield server.url(name)
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await admin.close()


class Outside:
    """The order store and the payment gateway, as a test prepares them and looks at what really happened."""

    def __init__(self, urls: SandboxUrls, client: httpx.AsyncClient) -> None:
        self.urls = urls
        self._client = client

    async def order(self, *captured: int, **changes: Any) -> dict[str, Any]:
        """A new delivered order, paid 100.00 USD, of a customer of its own."""
        mark = secrets.token_hex(6)
        order: dict[str, Any] = {
            "order_id": f"ord_{mark}",
            "customer_id": f"cus_{mark}",
            "status": "delivered",
            "placed_at": "2026-01-02T03:04:05Z",
            "currency": "USD",
            "items": [{"item_id": "1", "name": "Lamp", "quantity": 1, "price_cents": 10_000, "options": {}}],
            "payments": [
                {"payment_id": f"pay_{mark}{n}", "method": "card", "captured_cents": cents}
                for n, cents in enumerate(captured or (10_000,))
            ],
            "refunds": [],
            "disputed": False,
            "shipping_address": {
                "line1": "1 Example Street",
                "line2": None,
                "city": "Springfield",
                "region": "NY",
                "postal_code": "10001",
                "country": "US",
            },
            "tracking_ids": ["T1"],
        } | changes
        await self.put_order(order)
        await self.customer(order["customer_id"])
        return order

    async def put_order(self, order: dict[str, Any]) -> None:
        path = f"{self.urls.store}/_orders/{order['order_id']}"
        (await self._client.put(path, json=order)).raise_for_status()

    async def customer(self, customer_id: str, *, fraud_flag: bool = False) -> None:
        customer = {"customer_id": customer_id, "name": "Ada Example", "email": "ada@example.com"}
        path = f"{self.urls.store}/_customers/{customer_id}"
        (await self._client.put(path, json={**customer, "fraud_flag": fraud_flag})).raise_for_status()

    async def ticket(self, customer_id: str, **changes: Any) -> str:
        """A new open ticket of a customer."""
        number = secrets.randbelow(2**40) + 10_000
        words = {"subject": "Lamp", "description": "It flickers."}
        ticket = {"id": number, "customer_id": customer_id, "status": "open", **words} | changes
        (await self._client.put(f"{self.urls.helpdesk}/_tickets/{number}", json=ticket)).raise_for_status()
        return str(number)

    async def words_on(self, ticket_id: str) -> list[tuple[str, bool]]:
        """(what was written, whether the customer can read it), oldest first."""
        answer = await self._client.get(f"{self.urls.helpdesk}/_tickets/{ticket_id}")
        comments = [each["events"][0] for each in answer.json()["audits"]]
        return [(each["body"], each["public"]) for each in comments]

    async def fault(self, do: str, order: dict[str, Any], *, operation: str = "refund", times: int = 1) -> None:
        payment_id = order["payments"][0]["payment_id"]
        script = [{"operation": operation, "do": do, "payment_id": payment_id, "times": times}]
        (await self._client.post(f"{self.urls.gateway}/_faults", json=script)).raise_for_status()

    async def refund_in_dashboard(self, order: dict[str, Any], amount: int) -> None:
        wanted = {"payment_id": order["payments"][0]["payment_id"], "amount": amount}
        (await self._client.post(f"{self.urls.gateway}/_refunds", json=wanted)).raise_for_status()

    async def effects(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        """The refunds of an order that really happened."""
        payments = {each["payment_id"] for each in order["payments"]}
        answer = await self._client.get(f"{self.urls.gateway}/_effects")
        return [each for each in answer.json()["effects"] if each["payment_id"] in payments]

    async def sends(self, record: CallRecord) -> int:
        """How many refund requests with this call's key reached the gateway."""
        assert record.details.effect is not None
        key = record.details.effect.gateway_key
        answer = await self._client.get(f"{self.urls.gateway}/_requests")
        sent = [each for each in answer.json()["requests"] if each["method"] == "POST"]
        return sum(each["idempotency_key"] == key for each in sent)


@dataclass(frozen=True)
class Started:
    """A call that was started, whatever became of it."""

    request: ToolCallInput
    handle: WorkflowHandle[Any, Any]


@dataclass(frozen=True)
class Service:
    """One wiring of the service, and what tests do with it."""

    core: Core
    services: Services
    outside: Outside
    signer: DecisionSigner
    waiters: Waiters

    @property
    def temporal(self) -> Client:
        return self.core.temporal

    async def open_run(self, customer_id: str, *, tenant: str | None = None, tools: tuple[str, ...] = ()) -> OpenedRun:
        """A run for a customer, in a tenant of its own unless named, so that limits count nothing of other tests."""
        return await self.core.ledger.principals.open_run(
            Principal(kind="service", tenant=tenant or f"t{secrets.token_hex(6)}", name="runtime"),
            agent_id="support-bot",
            actor_id="user_17",
            customer_id=customer_id,
            tools=tools or ("issue_refund", "lookup_orders", "cancel_order"),
            seconds=3600,
        )

    async def proposal(self, order: dict[str, Any], amount: int, **more: JsonValue) -> tuple[ToolCallInput, str]:
        """(the input of a refund call in a new run of the order's customer, its workflow id)."""
        run = await self.open_run(order["customer_id"])
        return await self.input_for(run.run_id, refund_arguments(order, amount, **more))

    async def input_for(
        self, run_id: str, arguments: dict[str, JsonValue], tool: str = "issue_refund"
    ) -> tuple[ToolCallInput, str]:
        request_id = new_request_id()
        state = await self.core.ledger.admissions.run(run_id, "")
        assert state is not None
        key = str(arguments.get("idempotency_key", request_id))
        call_id = workflow_id(state.binding.tenant, tool, key_hash(key))
        return ToolCallInput(run_id=run_id, tool=tool, request_id=request_id, arguments=arguments), call_id

    async def start(self, request: ToolCallInput, call_id: str, *, task_queue: str | None = None) -> Started:
        handle = await self.temporal.start_workflow(
            "ToolCall",
            request,
            id=call_id,
            task_queue=task_queue or self.services.task_queue,
            search_attributes=TypedSearchAttributes(search_attributes(request.tool, request.run_id)),
        )
        return Started(request, handle)

    async def refund(self, order: dict[str, Any], amount: int, **more: JsonValue) -> Started:
        return await self.start(*await self.proposal(order, amount, **more))

    async def finish(self, started: Started) -> CallRecord:
        """The call once its workflow has ended."""
        async with asyncio.timeout(PATIENCE):
            await started.handle.result()
        return await self.record(started)

    async def record(self, started: Started) -> CallRecord:
        return await self.core.ledger.calls.read(started.request.request_id)

    async def rest(self, started: Started, until: frozenset[Status] = RESTING) -> CallRecord:
        """The call once it has settled or parked."""
        await self.waiters.wait(started.handle.id, PATIENCE, until)
        return await self.record(started)

    async def parked(self, order: dict[str, Any], amount: int = 25_000, **more: JsonValue) -> tuple[Started, Approval]:
        started = await self.refund(order, amount, **more)
        return started, await self.approval(await self.rest(started))

    async def approval(self, record: CallRecord) -> Approval:
        assert record.status == "pending_approval", record.code
        assert record.approval_id is not None
        found = await self.core.ledger.approvals.get(record.tenant, record.approval_id)
        assert found is not None
        return found

    def decision(self, approval: Approval, verdict: Literal["approve", "deny"], **changes: Any) -> SignedDecision:
        decision = human_decision(approval, verdict, **changes)
        return SignedDecision(
            approval_id=decision.approval_id, verdict=decision.verdict, token=self.signer.sign(decision)
        )

    async def activities_of(self, request_id: str) -> ActivityEnvironment:
        """Where activities run that the call's workflow asks for."""
        environment = ActivityEnvironment()
        record = await self.core.ledger.calls.read(request_id)
        environment.info = replace(environment.info, workflow_id=record.workflow_id)
        return environment

    async def events(self, started: Started) -> list[Recorded]:
        return [event for _, event in await self.core.ledger.calls.events(started.request.request_id)]

    async def event_types(self, started: Started) -> list[str]:
        return [event.type for event in await self.events(started)]

    def elsewhere(self, **changes: Any) -> "Service":
        """The same with other activity services, e.g. `inline=False` on another task queue."""
        return replace(self, services=replace(self.services, **changes))


def systems_of(services: Services) -> Systems:
    """The outside systems of a process that has credentials."""
    assert services.systems is not None
    return services.systems


def refund_arguments(order: dict[str, Any], amount: int, **more: JsonValue) -> dict[str, JsonValue]:
    return {
        "order_id": order["order_id"],
        "amount_cents": amount,
        "currency": order["currency"],
        "reason_code": "damaged",
        "idempotency_key": secrets.token_hex(16),
        **more,
    }


def human_decision(approval: Approval, verdict: Literal["approve", "deny"], **changes: Any) -> HumanDecision:
    decision = HumanDecision(
        decision_id=new_decision_id(),
        approval_id=approval.approval_id,
        request_id=approval.request_id,
        tenant=approval.tenant,
        action_digest=approval.action_digest,
        policy_version=approval.policy_version,
        approver="ana",
        verdict=verdict,
        reason="",
        decided_at=datetime.now(UTC),
    )
    return decision.model_copy(update=changes)


@contextmanager
def address_of(temporal: str) -> Generator[None]:
    """Where clients that are made meanwhile connect to."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TEMPORAL_ADDRESS", temporal)
        environment.setenv("TEMPORAL_NAMESPACE", "default")
        yield


@asynccontextmanager
async def service(
    database: str, temporal: str, urls: SandboxUrls, folder: Path, **settings_: Any
) -> AsyncGenerator[Service]:
    """The service wired over these servers, without any worker."""
    key_file = folder / "master.key"
    key_file.write_text(base64.b64encode(TEST_KEY).decode())
    settings = Settings(
        database_url=SecretStr(database),
        master_key_file=key_file,
        task_queue=f"tests-{secrets.token_hex(4)}",
        sandbox_gateway_url=urls.gateway,
        sandbox_gateway_key=SecretStr(SANDBOX_KEY),
        store_url=urls.store,
        store_key=SecretStr(SANDBOX_KEY),
        helpdesk_url=urls.helpdesk,
        helpdesk_key=SecretStr(SANDBOX_KEY),
        private_networks="payments,orders,helpdesk",
        exchange_seconds=5,
        **settings_,
    )
    if not isinstance(trace.get_tracer_provider(), ReplaySafeTracerProvider):
        trace.set_tracer_provider(tracer_provider())
    async with AsyncExitStack() as stack:
        with address_of(temporal):
            built = await stack.enter_async_context(core(settings, connections=20))
        services = await stack.enter_async_context(activity_services(built, inline=True))
        outside = Outside(urls, await stack.enter_async_context(loopback.plain_client()))
        yield Service(built, services, outside, DecisionSigner(built.master), Waiters(built.ledger.calls))


@asynccontextmanager
async def working(service: Service, **changes: Any) -> AsyncGenerator[Service]:
    """The service with workers for everything, workflows in the sandbox; `changes` are those of a workflow worker."""
    changes.setdefault("runner", workflow_sandbox())
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(workflow_worker(service.temporal, service.services, **changes))
        for queue in ("payments", "orders"):
            await stack.enter_async_context(effect_worker(service.temporal, service.services, queue))
        yield service
