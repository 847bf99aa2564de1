"""The service as it is deployed, in one process over real servers, with every secret planted where it belongs."""

import base64
import contextlib
import re
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from urllib.parse import quote, urlsplit

import asyncpg
import httpx
import pytest
from pydantic import SecretStr
from temporalio.client import Client

from api.app import create_app
from gateways.client import new_client
from gateways.protocols import Systems
from ledger.ledger import Ledger
from ledger.principals import OpenedRun, Principal
from runtime import api_process, assembly
from runtime.settings import Settings
from runtime.stack.postgres import SERVICE, Postgres
from runtime.workers import effect_worker, workflow_sandbox, workflow_worker
from sandbox.app import Keys, create_apps
from sandbox.state import open_state
from tests.canary.outside import Line, Shop, Switchboard, line_to
from tests.canary.planted import Planted, Secret, token
from tests.canary.sinks import Database
from tests.loopback import plain_client
from tests.service import SandboxUrls, fresh_database, systems_of
from tests.serving import served

TENANT = "canary"
PERSON_PASSWORD = "a long example password"
TOOLS = ("issue_refund", "lookup_orders", "cancel_order")
PATIENT_SECONDS = 20.0
"""Deadline of an exchange that is not meant to reach it, on a busy machine."""


@dataclass(frozen=True)
class World:
    """One wiring of the service, and the ways into it."""

    planted: Planted
    settings: Settings
    api: httpx.AsyncClient
    ledger: Ledger
    board: Switchboard
    shop: Shop
    client: httpx.AsyncClient
    outside: httpx.AsyncClient
    """What the suite itself does at the remote systems goes through it."""
    database_line: Line
    temporal_line: Line
    undecoded: Client
    database: Database
    service: Principal
    service_token: str
    approver_token: str
    people: dict[str, httpx.AsyncClient]
    """Browsers of the signed in: `ana` may approve, `olga` operates."""

    async def open_run(self, customer_id: str) -> OpenedRun:
        return await self.ledger.principals.open_run(
            self.service,
            # What agents did within an hour counts, and every stage refunds the same.
            agent_id=f"support-bot-{customer_id}",
            actor_id="user_17",
            customer_id=customer_id,
            tools=TOOLS,
            seconds=3600,
        )

    def systems_at(self, base: str, *, deadline: float = PATIENT_SECONDS) -> Systems:
        """The remote systems as the service would wire them, if they were at `base`."""
        elsewhere = {"sandbox_gateway_url": base, "store_url": base, "exchange_seconds": deadline}
        moved = self.settings.model_copy(update=elsewhere)
        return assembly.outside_systems(moved, self.ledger.credentials, self.client, ("payments", "orders"))


@asynccontextmanager
async def world(postgres: Postgres, template: str, temporal: str, folder: Path) -> AsyncGenerator[World]:
    """Everything started, every secret in its place, everyone signed in."""
    planted = Planted.new()
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        database_url = await enter(fresh_database(postgres, template))
        temporal_host, _, temporal_port = temporal.partition(":")
        temporal_line = await enter(line_to(temporal_host, int(temporal_port)))
        database_line = await enter(line_to("127.0.0.1", postgres.port))
        name = urlsplit(database_url).path.removeprefix("/")
        superuser = await enter(asyncpg.create_pool(postgres.superuser_url(name), min_size=1))
        role = await _role(superuser, planted.password.text)
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        environment.setenv("TEMPORAL_ADDRESS", f"127.0.0.1:{temporal_line.port}")
        environment.setenv("TEMPORAL_NAMESPACE", "default")
        keys = Keys(planted.gateway_key.text, planted.store_key.text, planted.helpdesk_key.text)
        apps = create_apps(stack.enter_context(contextlib.closing(open_state(folder / "sandbox"))), keys)
        urls = SandboxUrls(*[await enter(served(app)) for app in apps])
        login = f"{role}:{quote(planted.password.text, safe='')}@127.0.0.1:{database_line.port}"
        settings = _settings(planted, f"postgresql://{login}/{name}", urls, folder)
        core = await enter(assembly.core(settings, connections=20))
        await core.ledger.vault.put("sandbox", planted.gateway_key.text, by="olga")
        await core.ledger.vault.put("store", planted.store_key.text, by="olga")
        await core.ledger.vault.put("zendesk", planted.helpdesk_key.text, by="olga")
        services = await enter(assembly.activity_services(core, inline=True))
        board = Switchboard(systems_of(services))
        services = replace(services, systems=board.systems())
        await enter(workflow_worker(core.temporal, services, runner=workflow_sandbox()))
        for queue in ("payments", "orders"):
            await enter(effect_worker(core.temporal, services, queue))
        app = create_app(api_process.lifespan_of(settings))
        base = await enter(served(app, **api_process.server_options(settings), lifespan="on"))
        client, outside = await enter(new_client()), await enter(plain_client())
        api = await enter(httpx.AsyncClient(base_url=base, verify=False, timeout=60))
        principals = core.ledger.principals
        _, service_token = await principals.issue("service", TENANT, "runtime")
        people: dict[str, httpx.AsyncClient] = {}
        for person, roles in (("ana", ["finance"]), ("olga", ["operator"])):
            await principals.add_user(TENANT, person, f"{person.title()} Example", PERSON_PASSWORD, roles)
            people[person] = await enter(httpx.AsyncClient(base_url=base, verify=False, timeout=60))
            await _sign_in(people[person], person)
        _, approver_token = await principals.issue("approver", TENANT, "ana")
        tokens = [token(service_token, "the service's token"), token(approver_token, "the approver's token")]
        sessions = [Secret(f"{person}'s session", _cookie(browser)) for person, browser in people.items()]
        yield World(
            planted=replace(planted, tokens=(*tokens, *sessions)),
            settings=settings,
            api=api,
            ledger=core.ledger,
            board=board,
            shop=Shop(urls, outside, planted),
            client=client,
            outside=outside,
            database_line=database_line,
            temporal_line=temporal_line,
            undecoded=await Client.connect(temporal),
            database=Database(superuser),
            service=Principal(kind="service", tenant=TENANT, name="runtime"),
            service_token=service_token,
            approver_token=approver_token,
            people=people,
        )


async def _role(superuser: "asyncpg.Pool[asyncpg.Record]", password: str) -> str:
    """A role of the service whose password is the planted one."""
    role = f"canary_{secrets.token_hex(4)}"
    statement = await superuser.fetchval(
        f"SELECT format('CREATE ROLE {role} LOGIN PASSWORD %L IN ROLE {SERVICE}', $1::text)", password
    )
    await superuser.execute(statement)
    return role


def _settings(planted: Planted, database_url: str, urls: SandboxUrls, folder: Path) -> Settings:
    key_file = folder / "master.key"
    key_file.write_text(base64.b64encode(planted.master_key.value).decode())
    return Settings(
        database_url=SecretStr(database_url),
        master_key_file=key_file,
        tenant=TENANT,
        task_queue=f"canary-{secrets.token_hex(4)}",
        sandbox_gateway_url=urls.gateway,
        store_url=urls.store,
        helpdesk_url=urls.helpdesk,
        private_networks="payments,orders,helpdesk",
        metrics_access="anyone",
        exchange_seconds=PATIENT_SECONDS,
    )


def hidden(html: str, name: str) -> str:
    """The value of a form's hidden field."""
    found = re.search(rf'name="{name}" value="([^"]*)"', html)
    assert found is not None, f"the page has no field {name}"
    return unescape(found[1])


async def _sign_in(browser: httpx.AsyncClient, username: str) -> None:
    csrf = hidden((await browser.get("/signin")).text, "csrf")
    form = {"csrf": csrf, "username": username, "password": PERSON_PASSWORD, "next": "/"}
    answer = await browser.post("/signin", data=form)
    assert answer.status_code == 303, answer.status_code


def _cookie(browser: httpx.AsyncClient) -> bytes:
    return str(browser.cookies["counterseal_session"]).encode()
