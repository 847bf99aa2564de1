"""Tenants over HTTP: another tenant's id answers exactly as one that does not exist, whichever route it is given to."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from api.sessions import COOKIE
from ledger.database import connect
from ledger.ledger import Ledger
from ledger.principals import OpenedRun, TokenKind
from tests.api.conftest import Api, Tenant
from tests.passwords import quick_hashes
from tests.service import refund_arguments

pytestmark = pytest.mark.asyncio(loop_scope="session")

PASSWORD = "a long example password"
# Its parameter is no id of a tenant's.
_PUBLIC = {"/codes/{code}", "/static/{path:path}", "/v1/webhooks/{gateway}"}
# Policies hold for every tenant: who sees proposals of them is told in test_policies_page.
_EVERYBODYS = {"/policies/{proposal_id}"}
_IDS = {"request_id": "act", "approval_id": "apr", "run_id": "run"}
_FAKE = {name: f"{prefix}_{'0' * 32}" for name, prefix in _IDS.items()}

_LATER = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


def routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Every (method, path) with a parameter in its path; HEAD beside GET where it is answered."""

    def walk(found: list[BaseRoute]) -> Iterator[tuple[str, str]]:
        for route in found:
            if isinstance(route, APIRoute):
                yield from ((method, route.path) for method in sorted(route.methods or ()) if "{" in route.path)
            else:
                inner = getattr(route, "original_router", None) or getattr(route, "app", None)
                yield from walk(getattr(inner, "routes", []))

    yield from walk(list(app.routes))


@dataclass(frozen=True)
class Stranger:
    """Somebody of another tenant, signed in on the web form and with a token of every kind."""

    tenant: Tenant
    run_token: str
    session: str
    own: tuple[str, str]
    """What pages say of whoever is signed in: the form's token and the name."""

    async def ask(self, method: str, path: str, **ids: str) -> httpx.Response:
        api, filled = self.tenant.api, path.format(**ids)
        if not path.startswith("/v1/"):
            headers = {"Cookie": f"{COOKIE}={self.session}"}
            form = {"csrf": self.own[0], "decision": "approve", "action_digest": "0" * 64, "reason": "because"}
            form["until"] = _LATER
            return await api.request(method, filled, headers=headers, data=form if method == "POST" else None)
        body = {"decision": "approve", "action_digest": "0" * 64, "reason": "because"}
        if path.endswith("/deadline"):
            body = {"expires_at": _LATER, "reason": "because"}
        elif path.endswith(("/claim", "/release")):
            body = {}
        return await api.request(method, filled, self._token(path), json=body if method == "POST" else None)

    def _token(self, path: str) -> str:
        if path.startswith("/v1/approvals"):
            return self.tenant.approver_token
        return self.tenant.service_token if path.startswith("/v1/runs") else self.run_token


async def stranger(api: Api) -> Stranger:
    tenant = await api.tenant()
    ledger, username = api.service.core.ledger, f"olga{secrets.token_hex(4)}"
    with quick_hashes():
        await ledger.principals.add_user(tenant.name, username, username, PASSWORD, ["finance", "operator"])
        signed_in = await ledger.principals.sign_in(username, PASSWORD)
    assert signed_in is not None
    secret, person = signed_in
    return Stranger(tenant, await tenant.run("cus_1"), secret, (person.csrf, person.username))


def _told(answer: httpx.Response, *own: str) -> tuple[int, dict[str, str], str]:
    """All that an answer says, save what whoever asked said or is (`own`), and the id that the answer has itself."""
    said = answer.text
    for each in own:
        said = said.replace(each, "OWN")
    headers = {name: value for name, value in answer.headers.items() if name not in ("content-length", "date")}
    return answer.status_code, headers, re.sub(r"act_[0-9a-f]{32}", "ITS OWN", said)


async def test_another_tenants_id_answers_as_one_that_does_not_exist(api: Api, tenant: Tenant) -> None:
    parked = await tenant.parked()
    (run_id,) = await _runs(api, tenant)
    await api.service.core.ledger.system.execute(
        "INSERT INTO diagnostics (request_id, tenant, key_id, body) VALUES ($1, $2, 'dk_example', '')",
        parked["request_id"],
        tenant.name,
    )
    theirs = {"request_id": parked["request_id"], "approval_id": parked["approval_id"], "run_id": run_id}
    before = await _state(api, tenant)
    asked = 0
    for method, path in routes(api.app):
        if path in _PUBLIC | _EVERYBODYS:
            continue
        asked += 1
        names = re.findall(r"{(\w+)", path)
        assert set(names) <= set(_IDS), f"{path}: say here what its ids are"
        # Two strangers, so that the first question costs the second one nothing of its attempts.
        one, another = await stranger(api), await stranger(api)
        known = await one.ask(method, path, **theirs)
        unknown = await another.ask(method, path, **_FAKE)
        assert known.status_code == 404, (method, path, known.text)
        assert _told(known, *theirs.values(), *one.own) == _told(unknown, *_FAKE.values(), *another.own), (method, path)
    assert asked >= 8
    assert await _state(api, tenant) == before


async def _runs(api: Api, tenant: Tenant) -> list[str]:
    found = await api.service.core.ledger.system.fetch("SELECT run_id FROM runs WHERE tenant = $1", tenant.name)
    return [row["run_id"] for row in found]


async def _state(api: Api, tenant: Tenant) -> list[Any]:
    """All that the tenant has: nobody else changed it, looked at it on the record, or ended it."""
    pool = api.service.core.ledger.database.tenant(tenant.name)
    tables = ("calls", "events", "approvals", "decisions", "views", "runs", "tokens", "uses", "diagnostics")
    return [sorted(map(str, await pool.fetch(f"SELECT t::text FROM {table} t"))) for table in tables]


async def test_the_owner_gets_an_answer_where_a_stranger_got_none(api: Api, tenant: Tenant) -> None:
    """The same questions with the tenant's own tokens: the 404s above are not those of a wrong path."""
    parked = await tenant.parked()
    (run_id,) = await _runs(api, tenant)
    run_token, service_token, approver_token = parked["run_token"], tenant.service_token, tenant.approver_token
    for method, path, token in (
        ("GET", f"/v1/approvals/{parked['approval_id']}", approver_token),
        ("GET", f"/v1/tool-calls/{parked['request_id']}", run_token),
        ("POST", f"/v1/tool-calls/{parked['request_id']}/cancel", run_token),
        ("POST", f"/v1/runs/{run_id}/revoke", service_token),
    ):
        assert (await api.request(method, path, token)).status_code == 200, path


async def test_lists_and_searches_show_nothing_of_another_tenant(api: Api, tenant: Tenant) -> None:
    parked = await tenant.parked()
    other = await stranger(api)
    found = await api.get("/v1/approvals", other.tenant.approver_token)
    assert found.json() == {"approvals": [], "next_cursor": None}
    for path in (
        "/",
        "/history",
        "/stats",
        "/operations",
        f"/operations?status={parked['status']}",
    ):
        page = await api.get(path, headers={"Cookie": f"{COOKIE}={other.session}"})
        assert page.status_code == 200, path
        for id_ in (parked["approval_id"], parked["request_id"], tenant.name):
            assert id_ not in page.text, path
    known, unknown = [
        await api.get(f"/?find={id_}", headers={"Cookie": f"{COOKIE}={other.session}"})
        for id_ in (parked["request_id"], _FAKE["request_id"])
    ]
    assert known.status_code == 200
    assert _told(known, parked["request_id"]) == _told(unknown, _FAKE["request_id"])


async def test_a_run_of_another_agent_of_the_same_tenant_sees_no_more(api: Api, tenant: Tenant) -> None:
    parked = await tenant.parked()
    other = await tenant.run("cus_1", agent_id="another-bot")
    for path, method in ((f"/v1/tool-calls/{parked['request_id']}", "GET"), (f"/v1/tool-calls/{'{}'}/cancel", "POST")):
        answer = await api.request(method, path.format(parked["request_id"]), other)
        assert answer.status_code == 404


# Ending


@pytest_asyncio.fixture(loop_scope="session")
async def elsewhere(api: Api) -> AsyncIterator[Ledger]:
    """The ledger as another process has it."""
    settings = api.service.core.settings
    opened = await connect(settings.database_url.get_secret_value(), maximum=2)
    try:
        yield Ledger.over(opened, api.service.core.master)
    finally:
        await opened.close()


End = Callable[[Ledger, Tenant, OpenedRun], Awaitable[Any]]


async def _revoke_the_runs_token(elsewhere: Ledger, tenant: Tenant, run: OpenedRun) -> None:
    token_id = await elsewhere.system.fetchval("SELECT token_id FROM tokens WHERE run_id = $1", run.run_id)
    assert await elsewhere.principals.revoke(token_id)


async def _revoke_the_services_token(elsewhere: Ledger, tenant: Tenant, run: OpenedRun) -> None:
    opened_with = await elsewhere.system.fetchval("SELECT opened_with FROM runs WHERE run_id = $1", run.run_id)
    assert await elsewhere.principals.revoke(opened_with)


async def _revoke_the_run(elsewhere: Ledger, tenant: Tenant, run: OpenedRun) -> None:
    answer = await tenant.api.post(f"/v1/runs/{run.run_id}/revoke", tenant.service_token)
    again = await tenant.api.post(f"/v1/runs/{run.run_id}/revoke", tenant.service_token)
    assert answer.json() == again.json()
    assert set(answer.json()) == {"run_id", "revoked_at"}


@pytest.mark.parametrize("end", [_revoke_the_runs_token, _revoke_the_services_token, _revoke_the_run])
async def test_a_run_ends_in_every_process_by_the_next_request(
    api: Api, tenant: Tenant, elsewhere: Ledger, end: End
) -> None:
    order = await api.service.outside.order()
    token = await tenant.run(order["customer_id"])
    (run_id,) = await _runs(api, tenant)
    assert (await api.get("/v1/tools", token)).status_code == 200
    assert await elsewhere.principals.authenticate(token) is not None
    await end(elsewhere, tenant, OpenedRun(run_id, token, None))  # pyright: ignore[reportArgumentType]  # unused here
    await asyncio.sleep(0.01)
    for method, path in (("GET", "/v1/tools"), ("POST", "/v1/tool-calls"), ("GET", f"/v1/tool-calls/act_{'0' * 32}")):
        assert (await api.request(method, path, token, json={})).status_code == 401
    assert await elsewhere.principals.authenticate(token) is None
    # Nor does a workflow that was started all the same do anything for it.
    state = await elsewhere.admissions.run(run_id, "")
    assert state is not None
    assert not state.is_open


async def test_a_service_ends_no_run_that_another_service_opened(api: Api, tenant: Tenant) -> None:
    token = await tenant.run("cus_1")
    (run_id,) = await _runs(api, tenant)
    _, other = await api.service.core.ledger.principals.issue("service", tenant.name, "another-runtime")
    assert (await api.post(f"/v1/runs/{run_id}/revoke", other)).status_code == 404
    assert (await api.get("/v1/tools", token)).status_code == 200


async def test_a_disabled_person_decides_nothing_from_the_next_request_on(
    api: Api, tenant: Tenant, elsewhere: Ledger
) -> None:
    parked = await tenant.parked()
    principals, username = api.service.core.ledger.principals, f"olga{secrets.token_hex(4)}"
    await principals.add_user(tenant.name, username, "Olga Example", PASSWORD, ["finance"])
    _, token = await principals.issue("approver", tenant.name, username)
    signed_in = await principals.sign_in(username, PASSWORD)
    assert signed_in is not None
    assert (await api.get("/v1/approvals", token)).status_code == 200
    assert await elsewhere.principals.disable_user(username)
    await asyncio.sleep(0.01)
    body = {"decision": "approve", "action_digest": parked["action_digest"]}
    path = f"/approvals/{parked['approval_id']}"
    assert (await api.post(f"/v1{path}/decision", token, json=body)).status_code == 401
    page = await api.get(path, headers={"Cookie": f"{COOKIE}={signed_in[0]}"})
    assert page.status_code == 303
    assert page.headers["location"].startswith("/signin")
    rows = await elsewhere.system.fetch(
        "SELECT (SELECT count(*) FROM sessions WHERE username = $1),"
        " (SELECT count(*) FROM tokens WHERE principal = $1 AND revoked_at IS NULL)",
        username,
    )
    assert tuple(rows[0]) == (0, 0)


async def test_a_runs_tools_are_checked_where_they_are_listed_and_where_one_is_called(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    token = await tenant.run(order["customer_id"], tools=("lookup_orders",))
    listed = (await api.get("/v1/tools", token)).json()["tools"]
    assert [tool["name"] for tool in listed] == ["lookup_orders"]
    answer = await api.call(token, refund_arguments(order, 1_000))
    assert (answer.status_code, answer.json()["code"]) == (403, "TOOL_NOT_AVAILABLE")
    assert await api.service.outside.effects(order) == []


@pytest.mark.parametrize("kind", ["service", "run", "approver", "operator"])
async def test_a_token_of_one_kind_opens_no_other_kinds_routes_and_learns_nothing(
    api: Api, tenant: Tenant, kind: TokenKind
) -> None:
    """Every route that takes a token, from the API's own description; with an id of its own tenant and a bad body."""
    parked = await tenant.parked()
    (run_id,) = await _runs(api, tenant)
    ids = {"request_id": parked["request_id"], "approval_id": parked["approval_id"], "run_id": run_id}
    tokens = {
        "service": tenant.service_token,
        "run": parked["run_token"],
        "approver": tenant.approver_token,
        "operator": tenant.operator_token,
    }
    guarded = 0
    for path, operations in api.app.openapi()["paths"].items():
        for method, operation in operations.items():
            wanted = {name.removesuffix("_token") for each in operation.get("security", ()) for name in each}
            if not path.startswith("/v1/") or path in _PUBLIC:
                continue
            assert wanted, f"{method} {path} says which token it takes"
            if kind in wanted:
                continue
            guarded += 1
            real = await api.request(method.upper(), path.format(**ids), tokens[kind], content=b"{")
            fake = await api.request(method.upper(), path.format(**_FAKE), tokens[kind], content=b"{")
            assert real.status_code == 403, (method, path)
            assert 'error="insufficient_scope"' in real.headers["www-authenticate"]
            assert _told(real, *ids.values()) == _told(fake, *_FAKE.values())
    assert guarded >= 4
