"""Requests that end at the edge: each leaves a diagnostic, without its body; a flood of them stays bounded."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import asyncpg
import httpx
import pytest
from structlog.testing import capture_logs

from api.diagnosing import EdgeDiagnostics
from api.pages.diagnosis import tell
from ledger.principals import Principal
from schemas.codes import Code
from schemas.diagnostics import Diagnostic
from schemas.events import DiagnosticOpened
from tests.api.parked import TENANT, Office, office

BASE = "http://counterseal.test"
OPENED = DiagnosticOpened(principal="olga", through="page")
SECRET = "card 4111111111111111 of Ada Example"
CALL: dict[str, Any] = {
    "tool": "issue_refund",
    "arguments": {
        "order_id": "ord_8f2b91a04c7d",
        "amount_cents": 4999,
        "currency": "USD",
        "reason_code": "damaged",
        "note": SECRET,
        "idempotency_key": "0f" * 16,
    },
}


@pytest.fixture
async def desk(database: str) -> AsyncIterator[Office]:
    async with office(database) as made:
        yield made
        await noted(made).drain()


def noted(desk: Office) -> EdgeDiagnostics:
    return desk.app.state.context.edge_diagnostics


def client(desk: Office) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(desk.app, raise_app_exceptions=False, client=("192.0.2.7", 1234))
    return httpx.AsyncClient(transport=transport, base_url=BASE)


async def run_token(desk: Office, *, tenant: str = TENANT, tools: tuple[str, ...] = ("issue_refund",)) -> str:
    service = Principal(kind="service", tenant=tenant, name="runtime")
    opened = await desk.ledger.principals.open_run(
        service, agent_id="support-bot", actor_id="user_17", customer_id="cus_1", tools=list(tools), seconds=3600
    )
    return opened.token


async def post(desk: Office, token: str | None, **sent: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with client(desk) as agent:
        return await agent.post("/v1/tool-calls", headers={**headers, **sent.pop("headers", {})}, **sent)


async def diagnostic(desk: Office, answer: httpx.Response, *, tenant: str = TENANT) -> Diagnostic:
    await noted(desk).drain()
    request_id = answer.json()["request_id"]
    (found,) = await desk.ledger.of(tenant).diagnostics.open(request_id, OPENED, tenant=tenant)
    assert found.step == "edge"
    assert found.edge is not None
    assert (found.edge.http_status, found.edge.peer) == (answer.status_code, "192.0.2.7")
    assert found.told == answer.json()["message"]
    rows = await desk.ledger.system.fetch("SELECT body FROM diagnostics WHERE request_id = $1", request_id)
    for part in (b"192.0.2.7", b"tool-calls", b"edge", b"INVALID"):
        assert part not in rows[0]["body"]
    return found


def text(found: Diagnostic) -> str:
    return " ".join(tell(found).sentences)


def reached(found: Diagnostic) -> list[str]:
    return [mark.name for mark in found.marks]


async def test_without_a_token(desk: Office) -> None:
    answer = await post(desk, None, json=CALL)
    assert answer.status_code == 401
    found = await diagnostic(desk, answer)
    assert (found.code, reached(found)) == (Code.UNAUTHENTICATED, [])
    assert "POST /v1/tool-calls from 192.0.2.7 ended at the edge with HTTP 401." in text(found)
    assert "It carried no bearer token." in text(found)
    assert "Its body was not read." in text(found)
    assert "nothing was begun and nothing was sent." in text(found)


async def test_with_a_token_that_was_never_issued(desk: Office) -> None:
    found = await diagnostic(desk, await post(desk, "cs_run_guessed", json=CALL))
    assert "It carried a bearer token that was never issued here." in text(found)
    assert "guessed" not in found.model_dump_json()


@pytest.mark.parametrize(
    ("change", "state"),
    [("expires_at = now() - interval '1 h'", "which has expired"), ("revoked_at = now()", "revoked")],
)
async def test_with_a_token_that_no_longer_opens_anything(desk: Office, change: str, state: str) -> None:
    """Found among the tenant's own: its operators learn which one it was."""
    token = await run_token(desk, tenant="globex")
    await desk.ledger.system.execute(f"UPDATE tokens SET {change} WHERE kind = 'run'")
    answer = await post(desk, token, json=CALL)
    assert answer.status_code == 401
    found = await diagnostic(desk, answer, tenant="globex")
    assert "It carried the run token tok_" in text(found)
    assert state in text(found)
    assert token not in found.model_dump_json()


async def test_with_a_token_of_another_kind(desk: Office) -> None:
    _, token = await desk.ledger.principals.issue("service", TENANT, "runtime")
    answer = await post(desk, token, json=CALL)
    assert answer.status_code == 403
    found = await diagnostic(desk, answer)
    assert (found.code, reached(found)) == (Code.FORBIDDEN, [])
    assert "of runtime, which is valid." in text(found)


BAD: dict[str, tuple[dict[str, Any], int]] = {
    "malformed": ({"content": f'{{"note": "{SECRET}"', "headers": {"Content-Type": "application/json"}}, 400),
    "other type": ({"content": SECRET, "headers": {"Content-Type": "text/plain"}}, 415),
    "too large": ({"content": SECRET * 4000, "headers": {"Content-Type": "application/json"}}, 413),
    "unknown field": ({"json": {**CALL, SECRET: SECRET}}, 422),
    "wrong argument": ({"json": {**CALL, "arguments": {**CALL["arguments"], "amount_cents": SECRET}}}, 422),
}


@pytest.mark.parametrize("case", BAD)
async def test_of_bad_input_only_size_and_fingerprint_are_kept(desk: Office, case: str) -> None:
    sent, status = BAD[case]
    answer = await post(desk, await run_token(desk), **sent)
    assert answer.status_code == status
    found = await diagnostic(desk, answer)
    assert (found.code, reached(found)) == (Code.INVALID_INPUT, [])
    kept = found.model_dump_json()
    assert "4111111111111111" not in kept
    assert "Ada Example" not in kept
    assert found.failure is None
    assert found.edge is not None
    assert found.edge.token is not None
    assert found.edge.token.run_id is not None
    if case in ("other type", "too large"):
        assert found.edge.body is None
    else:
        body = answer.request.content
        assert found.edge.body is not None
        assert found.edge.body.size == len(body)
        assert found.edge.body.fingerprint == desk.ledger.diagnostics.fingerprint(body)
        assert "Nothing of what it says is kept." in text(found)


async def test_a_tool_that_is_not_this_runs(desk: Office) -> None:
    answer = await post(desk, await run_token(desk, tools=("lookup_orders",)), json=CALL)
    assert answer.status_code == 403
    found = await diagnostic(desk, answer)
    assert (found.code, reached(found)) == (Code.TOOL_NOT_AVAILABLE, [])
    assert "4111111111111111" not in found.model_dump_json()


async def test_a_call_that_there_is_not(desk: Office) -> None:
    token = await run_token(desk)
    async with client(desk) as agent:
        answer = await agent.get("/v1/tool-calls/act_" + "0" * 32, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 404
    found = await diagnostic(desk, answer)
    assert found.edge is not None
    assert (found.edge.method, found.edge.route) == ("GET", "/v1/tool-calls/{request_id}")


class _Bug(Exception):
    """Raised where something of ours is broken."""


def _breaking(problem: Exception) -> Any:
    async def broken(*_: Any, **__: Any) -> Any:
        raise problem

    return broken


async def test_our_own_failure_is_kept_raw_but_without_the_token(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    token = await run_token(desk)
    monkeypatch.setattr("api.asking.call_tool", _breaking(_Bug(f"a bug that quotes {token}")))
    with capture_logs():
        answer = await post(desk, token, json=CALL)
    assert answer.status_code == 500
    assert "bug" not in answer.text
    found = await diagnostic(desk, answer)
    assert (found.code, reached(found)) == (Code.INTERNAL_FAILURE, ["input_validated"])
    assert found.failure is not None
    assert found.failure.text == "a bug that quotes [credential]"
    assert "in post_tool_call" in found.failure.traceback
    assert token not in found.model_dump_json()
    assert "Whether a workflow was begun cannot be told from here" in text(found)


async def test_a_database_that_is_away_is_told_once_it_is_back(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    token = await run_token(desk)
    away = asyncpg.CannotConnectNowError("the database system is starting up")
    monkeypatch.setattr("api.asking.call_tool", _breaking(away))
    tries = 0
    real = desk.ledger.diagnostics.store

    async def store(*arguments: Any, **named: Any) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise away
        await real(*arguments, **named)

    monkeypatch.setattr("ledger.diagnostics.Diagnostics.store", staticmethod(store))
    with capture_logs():
        answer = await post(desk, token, json=CALL)
    assert answer.status_code == 503
    found = await diagnostic(desk, answer)
    assert tries == 2
    assert found.code is Code.TEMPORARY_FAILURE
    assert found.failure is not None
    assert "starting up" in found.failure.text


async def test_opening_it_is_an_event_on_a_stream_of_its_own(desk: Office) -> None:
    answer = await post(desk, None, json=CALL)
    found = await diagnostic(desk, answer)
    await desk.ledger.diagnostics.open(found.request_id, OPENED, tenant=None)
    (first, event), (second, again) = await desk.ledger.calls.events(found.request_id)
    assert (first.type, event, again) == ("diagnostic.opened", OPENED, OPENED)
    assert (first.n, second.n, second.previous) == (1, 2, first.hash)
    assert first.tenant == TENANT


async def test_many_openings_at_once_make_one_chain(desk: Office) -> None:
    answer = await post(desk, None, json=CALL)
    found = await diagnostic(desk, answer)
    await asyncio.gather(*(desk.ledger.diagnostics.open(found.request_id, OPENED, tenant=None) for _ in range(8)))
    events = await desk.ledger.calls.events(found.request_id)
    assert [row.n for row, _ in events] == list(range(1, 10))
    assert len({row.previous for row, _ in events}) == 9


async def test_what_is_not_there_is_not_opened(desk: Office) -> None:
    request_id = "act_" + "0" * 32
    count = "SELECT count(*) FROM events"
    before = await desk.ledger.system.fetchval(count)
    assert await desk.ledger.diagnostics.open(request_id, OPENED, tenant=None) == []
    assert await desk.ledger.system.fetchval(count) == before


async def test_another_tenants_is_not_there(desk: Office) -> None:
    found = await diagnostic(desk, await post(desk, None, json=CALL))
    assert await desk.ledger.of("globex").diagnostics.open(found.request_id, OPENED, tenant="globex") == []


async def test_a_flood_is_answered_and_bounded(desk: Office) -> None:
    """Nothing waits for the database: while it is slow, the queue fills, and the rest is counted."""
    stored = asyncio.Semaphore(0)
    written: list[str] = []

    async def slow(told: Diagnostic, *_: Any, **__: Any) -> None:
        await stored.acquire()
        written.append(told.request_id)

    slowed = SimpleNamespace(fingerprint=desk.ledger.diagnostics.fingerprint, store=slow)
    edge = EdgeDiagnostics(slowed, tenant=TENANT, capacity=20, per_hour=1000)  # pyright: ignore[reportArgumentType]
    object.__setattr__(desk.app.state.context, "edge_diagnostics", edge)
    async with client(desk) as flooder:
        for _ in range(50):
            assert (await flooder.post("/v1/tool-calls", json=CALL)).status_code in (401, 429)
    assert edge.dropped == 30
    for _ in range(20):
        stored.release()
    await edge.drain()
    assert len(written) == 20


async def test_an_hour_has_its_budget_and_gets_it_back_with_time(desk: Office) -> None:
    now = 0.0
    edge = EdgeDiagnostics(desk.ledger.diagnostics, tenant=TENANT, per_hour=5, clock=lambda: now)
    object.__setattr__(desk.app.state.context, "edge_diagnostics", edge)
    count = "SELECT count(*) FROM diagnostics"
    for _ in range(8):
        await post(desk, None, json=CALL)
    await edge.drain()
    assert (edge.dropped, await desk.ledger.system.fetchval(count)) == (3, 5)
    now = 720.0
    for _ in range(2):
        await post(desk, None, json=CALL)
    await edge.drain()
    assert (edge.dropped, await desk.ledger.system.fetchval(count)) == (4, 6)


async def test_a_good_request_leaves_nothing(desk: Office) -> None:
    token = await run_token(desk)
    async with client(desk) as agent:
        assert (await agent.get("/v1/tools", headers={"Authorization": f"Bearer {token}"})).status_code == 200
    await noted(desk).drain()
    assert await desk.ledger.system.fetchval("SELECT count(*) FROM diagnostics") == 0
