"""The API process's application over a real ledger, Temporal and sandbox: these tests run on the session's loop."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI
from pydantic import JsonValue, SecretStr

from api.app import create_app
from api.context import Context
from runtime.api_process import lifespan_of
from runtime.stack.postgres import Postgres
from runtime.workers import effect_worker
from tests.api.api_process import ApiProcess, api_process
from tests.api.parked import Office, office
from tests.api.test_pages import sign_in
from tests.service import (
    PATIENCE,
    SandboxUrls,
    Service,
    address_of,
    fresh_database,
    refund_arguments,
    sandbox_process,
    service,
)
from tests.serving import in_one_task

# All tests come from one address; the bounds have tests of their own.
UNBOUNDED = dict.fromkeys(
    [
        f"{what}_per_{span}"
        for what in ("failed_authentications", "invalid_calls", "address_invalid_calls")
        for span in ("minute", "hour")
    ],
    1_000_000,
)


WEBHOOK_SECRET = "whsec_of_the_tests"


@dataclass(frozen=True)
class Tenant:
    """A tenant of its own, with its tokens, and the API as they reach it."""

    name: str
    api: "Api"
    service_token: str
    approver_token: str
    operator_token: str

    async def run(self, customer_id: str, *, tools: tuple[str, ...] = ("issue_refund",), **changes: Any) -> str:
        """The token of a new run."""
        body = {"agent_id": "support-bot", "actor_id": "user_17", "customer_id": customer_id, "tools": list(tools)}
        opened = await self.api.post("/v1/runs", self.service_token, json={**body, **changes})
        assert opened.status_code == 201, opened.text
        return opened.json()["run_token"]

    async def parked(self, **changes: Any) -> dict[str, Any]:
        """The JSON of the approval of a new refund of 250.00; `changes` are those of its run."""
        order = await self.api.service.outside.order(50_000)
        token = await self.run(order["customer_id"], **changes)
        reply = await self.api.call(token, refund_arguments(order, 25_000))
        assert reply.status_code == 202, reply.text
        found = await self.api.get("/v1/approvals", self.approver_token, params={"limit": 500})
        (approval,) = (each for each in found.json()["approvals"] if each["request_id"] == reply.json()["request_id"])
        return {**approval, "run_token": token, "order": order}


@dataclass(frozen=True)
class Api:
    """The application, and the service that it is wired over."""

    service: Service
    app: FastAPI
    client: httpx.AsyncClient

    @contextmanager
    def over(self, **changes: Any) -> Generator[Context]:
        """The application over a context of which something is different. Not by `monkeypatch`: the state keeps its
        attributes elsewhere than in its `__dict__`, and would be left without a context."""
        state = self.app.state
        before: Context = state.context
        state.context = replace(before, **changes)
        try:
            yield state.context
        finally:
            state.context = before

    async def get(self, path: str, token: str | None = None, **more: Any) -> httpx.Response:
        return await self.request("GET", path, token, **more)

    async def post(self, path: str, token: str | None = None, **more: Any) -> httpx.Response:
        return await self.request("POST", path, token, **more)

    async def request(self, method: str, path: str, token: str | None = None, **more: Any) -> httpx.Response:
        headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **more.pop("headers", {})}
        async with asyncio.timeout(PATIENCE):
            return await self.client.request(method, path, headers=headers, **more)

    async def call(
        self, token: str, arguments: dict[str, JsonValue], tool: str = "issue_refund", *, wait: int = 60, **more: Any
    ) -> httpx.Response:
        body = {"tool": tool, "arguments": arguments, **more}
        return await self.post("/v1/tool-calls", token, params={"wait_seconds": wait}, json=body)

    async def tenant(self) -> Tenant:
        name, principals = f"t{secrets.token_hex(6)}", self.service.core.ledger.principals
        username = f"ana{secrets.token_hex(4)}"
        await self.person(name, username, "finance")
        _, service_token = await principals.issue("service", name, "runtime")
        _, approver_token = await principals.issue("approver", name, username)
        _, operator_token = await principals.issue("operator", name, "operator")
        return Tenant(name, self, service_token, approver_token, operator_token)

    async def person(self, tenant: str, username: str, *groups: str) -> None:
        """Someone who can hold a token; signing in takes a password, and hashing one takes long."""
        await self.service.core.ledger.system.execute(
            "INSERT INTO users (tenant, username, display_name, password_hash, roles) VALUES ($1, $2, $3, 'none', $4)",
            tenant,
            username,
            username.title(),
            ["approver", *groups],
        )

    async def rows(self) -> dict[str, int]:
        """How many rows every table of calls has; diagnostics of refusals are written in the background, and so are the
        events of looking again at what other tests did."""
        tables = ("calls", "approvals", "uses", "decisions", "views")
        pool = self.service.core.ledger.system
        counted = {table: await pool.fetchval(f"SELECT count(*) FROM {table}") for table in tables}
        # Without what the workflows of earlier tests come to by themselves meanwhile.
        events = (
            "SELECT count(*) FROM events WHERE type NOT LIKE 'effect.%' AND type NOT LIKE 'review.%'"
            " AND type NOT IN ('call.settled', 'approval.expired')"
        )
        return {**counted, "events": await pool.fetchval(events)}


@asynccontextmanager
async def application(built: Service, temporal: str) -> AsyncGenerator[Api]:
    """The API process's application with its own workflow worker, and a worker for payments beside it."""
    changes = {"eager_start": True, "sandbox_webhook_secret": SecretStr(WEBHOOK_SECRET), **UNBOUNDED}
    settings = built.core.settings.model_copy(update=changes)
    app = create_app(lifespan_of(settings))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    running = in_one_task(app.router.lifespan_context(app))
    with address_of(temporal):
        await running.__aenter__()
    try:
        async with (
            effect_worker(built.temporal, built.services, "payments"),
            httpx.AsyncClient(transport=transport, base_url="http://counterseal.test", trust_env=False) as client,
        ):
            yield Api(built, app, client)
    finally:
        await running.__aexit__(None, None, None)


@pytest.fixture(scope="session")
def sandbox_urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxUrls]:
    with sandbox_process(tmp_path_factory.mktemp("sandbox")) as urls:
        yield urls


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def api(
    postgres_server: Postgres,
    migrated_template: str,
    temporal_server: str,
    sandbox_urls: SandboxUrls,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Api]:
    """The API process with its own workflow worker, and a worker for payments beside it."""
    folder = tmp_path_factory.mktemp("service")
    async with (
        fresh_database(postgres_server, migrated_template) as database,
        service(database, temporal_server, sandbox_urls, folder) as built,
        application(built, temporal_server) as api,
    ):
        yield api


@pytest_asyncio.fixture(loop_scope="session")
async def tenant(api: Api) -> Tenant:
    return await api.tenant()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def somebody(api: Api) -> Tenant:
    """One tenant for all tests that admit nothing."""
    return await api.tenant()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def run_token(somebody: Tenant) -> str:
    """A run of `somebody`."""
    return await somebody.run("cus_1")


@pytest.fixture(scope="session")
def process(
    _runner: asyncio.Runner,
    postgres_server: Postgres,
    migrated_template: str,
    temporal_server: str,
    sandbox_urls: SandboxUrls,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ApiProcess]:
    """`counterseal api` on a socket, with bounds that no test reaches."""
    folder = tmp_path_factory.mktemp("process")
    with api_process(_runner, postgres_server, migrated_template, temporal_server, sandbox_urls, folder) as running:
        yield running


@pytest.fixture
async def desk(database: str) -> AsyncIterator[Office]:
    """The application over a ledger of its own, without Temporal."""
    async with office(database) as made:
        yield made


@pytest.fixture
async def ana(desk: Office) -> AsyncIterator[httpx.AsyncClient]:
    """The browser of ana (finance), who is signed in at the desk."""
    client = await sign_in(desk)
    yield client
    await client.aclose()
