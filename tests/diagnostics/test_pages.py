"""Who gets to a diagnostic over HTTP: operators of its tenant, and nobody else by any route."""

import re
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi.routing import iter_route_contexts

from ledger.principals import Principal, TokenKind
from schemas.diagnostics import Diagnostic, RawException
from schemas.events import DiagnosticOpened
from tests.api.parked import PASSWORD, TENANT, Office, office, park

BASE = "http://counterseal.test"
SECRET = "a raw exception <b>about</b> Ada Example\x1b[2J"


@pytest.fixture
async def desk(database: str) -> AsyncIterator[Office]:
    async with office(database) as made:
        yield made


@pytest.fixture
async def request_id(desk: Office) -> str:
    """A parked call with a diagnostic."""
    approval = await park(desk.ledger)
    await desk.decide(approval, "deny", reason="no")
    record = await desk.ledger.calls.read(approval.request_id)
    told = Diagnostic(
        request_id=record.request_id,
        step="deny",
        began_at=record.updated_at,
        elapsed_ms=3,
        status="denied",
        code=record.code,
        tool=record.tool,
        failure=RawException(type="example.Bug", text=SECRET, traceback=f"Traceback\n{SECRET}"),
    )
    await desk.ledger.diagnostics.store(told, record.tenant, record.details.call.binding.customer_id)
    return record.request_id


async def sign_in(desk: Office, username: str) -> httpx.AsyncClient:
    browser = httpx.AsyncClient(transport=httpx.ASGITransport(desk.app), base_url=BASE)
    page = (await browser.get("/signin")).text
    found = re.search(r'name="csrf" value="([^"]*)"', page)
    assert found is not None
    form = {"csrf": found[1], "username": username, "password": PASSWORD, "next": "/"}
    assert (await browser.post("/signin", data=form)).status_code == 303
    return browser


async def opened(desk: Office, request_id: str) -> list[str]:
    events = await desk.ledger.calls.events(request_id)
    return [event.principal for _, event in events if isinstance(event, DiagnosticOpened)]


async def test_an_operator_reads_it_and_that_is_recorded(desk: Office, request_id: str) -> None:
    olga = await sign_in(desk, "olga")
    page = await olga.get(f"/operations/diagnostics/{request_id}")
    assert page.status_code == 200
    assert "issue_refund: taking a person" in page.text
    assert "Input validated" in page.text
    assert "not reached" in page.text
    assert "a raw exception &lt;b&gt;about&lt;/b&gt; Ada Example" in page.text
    assert "<b>about" not in page.text
    assert "\x1b" not in page.text
    assert await opened(desk, request_id) == ["olga"]


async def test_head_opens_nothing(desk: Office, request_id: str) -> None:
    olga = await sign_in(desk, "olga")
    answer = await olga.head(f"/operations/diagnostics/{request_id}")
    assert answer.status_code == 405
    assert await opened(desk, request_id) == []


@pytest.mark.parametrize("path", ["/operations/diagnostics/{}", "/operations/diagnostics?request_id={}"])
async def test_an_approver_does_not(desk: Office, request_id: str, path: str) -> None:
    ana = await sign_in(desk, "ana")
    answer = await ana.get(path.format(request_id))
    assert answer.status_code == 403
    assert "Ada Example" not in answer.text
    assert await opened(desk, request_id) == []


async def test_an_operator_of_another_tenant_finds_nothing(desk: Office, request_id: str) -> None:
    await desk.ledger.principals.add_user("globex", "oscar", "Oscar Example", PASSWORD, ["operator"])
    oscar = await sign_in(desk, "oscar")
    theirs = await oscar.get(f"/operations/diagnostics/{request_id}")
    missing = await oscar.get("/operations/diagnostics/act_" + "0" * 32)
    assert theirs.status_code == missing.status_code == 404
    assert theirs.text == missing.text
    assert await opened(desk, request_id) == []


@pytest.mark.parametrize("request_id", ["act_0", "%00", "act_" + "g" * 32, "act_" + "0" * 33])
async def test_what_is_no_request_id_is_not_found(desk: Office, request_id: str) -> None:
    olga = await sign_in(desk, "olga")
    assert (await olga.get(f"/operations/diagnostics/{request_id}")).status_code == 404
    assert (await olga.get("/operations/diagnostics", params={"request_id": request_id})).status_code == 404


async def test_operations_links_to_it_and_finds_it_by_its_id(desk: Office, request_id: str) -> None:
    olga = await sign_in(desk, "olga")
    page = (await olga.get("/operations")).text
    assert f'href="/operations/diagnostics/{request_id}"' in page
    assert 'action="/operations/diagnostics"' in page
    found = await olga.get("/operations/diagnostics", params={"request_id": f" {request_id} "})
    assert found.headers["location"] == f"/operations/diagnostics/{request_id}"
    assert await opened(desk, request_id) == []


@pytest.mark.parametrize(("username", "linked"), [("olga", True), ("ana", False)])
async def test_the_page_of_a_call_links_to_it_for_operators(
    desk: Office, request_id: str, username: str, linked: bool
) -> None:
    person = await sign_in(desk, username)
    approval_id = await desk.ledger.approvals.of_request(TENANT, request_id)
    page = (await person.get(f"/approvals/{approval_id}")).text
    assert (f"/operations/diagnostics/{request_id}" in page) is linked


@pytest.mark.parametrize("kind", ["run", "service", "approver", "operator"])
async def test_no_token_gets_it_by_any_route(desk: Office, request_id: str, kind: TokenKind) -> None:
    """Every route there is, with the id in whatever place it takes one."""
    record = await desk.ledger.calls.read(request_id)
    if kind == "run":
        binding = record.details.call.binding
        service = Principal(kind="service", tenant=TENANT, name="runtime")
        run = await desk.ledger.principals.open_run(
            service,
            agent_id=binding.agent_id,
            actor_id=binding.actor_id,
            customer_id=binding.customer_id,
            tools=["issue_refund"],
            seconds=3600,
        )
        token = run.token
    else:
        _, token = await desk.ledger.principals.issue(kind, TENANT, "olga")
    asked = 0
    async with httpx.AsyncClient(transport=httpx.ASGITransport(desk.app), base_url=BASE) as agent:
        # A stream has no end, and an answer is what is looked at: none is asked for.
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        for path, methods in _routes(desk):
            for method in methods:
                answer = await agent.request(method, re.sub(r"\{[^}]*\}", request_id, path), headers=headers)
                asked += 1
                assert "Ada Example" not in answer.text
                assert "elapsed_ms" not in answer.text
                if "diagnostics" in path:
                    assert answer.status_code in (303, 403, 404, 405)
                    assert "/signin" in answer.headers.get("location", "/signin")
    assert asked > 20
    assert await opened(desk, request_id) == []


def _routes(desk: Office) -> list[tuple[str, set[str]]]:
    found = [(each.path, each.methods or {"GET"}) for each in iter_route_contexts(desk.app.routes) if each.path]
    assert any("diagnostics" in path for path, _ in found)
    return found
