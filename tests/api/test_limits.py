"""Refused requests are bounded, by token holder and by address; good ones pass whatever was refused before."""

import asyncio
from typing import Any, cast

import httpx
import pytest
import uvicorn

from api.limits import Limits, Pace
from ledger.principals import Principal
from runtime.api_process import limits_of, server_options
from runtime.settings import Settings
from tests.api.parked import TENANT, Office

BASE = "http://counterseal.test"
SERVICE = Principal(kind="service", tenant=TENANT, name="runtime")
WRONG = {"Authorization": "Bearer cs_run_not_a_token_of_ours"}
# So wide that none is reached, so narrow that it is reached at once.
WIDE, NARROW = Pace(1_000_000, 1_000_000), Pace(1_000_000, 4)


class Caller:
    """An agent runtime at one address."""

    def __init__(self, desk: Office, address: str = "203.0.113.7") -> None:
        transport = httpx.ASGITransport(desk.app, client=(address, 50_000))
        self._client = httpx.AsyncClient(transport=transport, base_url=BASE)

    async def tools(self, token: str) -> httpx.Response:
        return await self._client.get("/v1/tools", headers={"Authorization": f"Bearer {token}"})

    async def wrong_token(self, **headers: str) -> httpx.Response:
        return await self._client.get("/v1/tools", headers={**WRONG, **headers})

    async def invalid_call(self, token: str) -> httpx.Response:
        body = {"tool": "issue_refund", "arguments": {}}
        headers = {"Authorization": f"Bearer {token}"}
        return await self._client.post("/v1/tool-calls", headers=headers, json=body)


def limit(desk: Office, **changes: Any) -> None:
    """Limits of which only `changes` are ever reached."""
    wide = Limits(WIDE, WIDE, WIDE)
    object.__setattr__(desk.app.state.context, "limits", wide._replace(**changes))


async def open_run(desk: Office) -> str:
    run = await desk.ledger.principals.open_run(
        SERVICE, agent_id="bot", actor_id="user", customer_id="cus_1", tools=["issue_refund"], seconds=600
    )
    return run.token


def codes(answers: list[httpx.Response]) -> list[str]:
    return [answer.json()["code"] for answer in answers]


async def test_two_hundred_wrong_tokens_are_soon_429_and_a_right_one_still_works(desk: Office) -> None:
    token, caller = await open_run(desk), Caller(desk)
    answers = [await caller.wrong_token() for _ in range(200)]
    # The default is 30 a minute; the minute may turn once while this runs, also shortly before its end.
    told = codes(answers).count("UNAUTHENTICATED")
    assert 30 <= told <= 60
    assert set(codes(answers)) == {"UNAUTHENTICATED", "RATE_LIMITED"}
    last = [answer for answer in answers if answer.status_code == 429][-1]
    assert last.status_code == 429
    problem = last.json()
    assert (problem["action"], problem["retryable"], problem["attempts_remaining"]) == ("stop_and_report", False, 0)
    assert 1 <= int(last.headers["retry-after"]) == problem["retry_after_seconds"] <= 3600
    assert (await caller.tools(token)).status_code == 200
    assert (await Caller(desk, "203.0.113.8").wrong_token()).status_code == 401
    assert await desk.ledger.system.fetchval("SELECT count(*) FROM attempts") == 4


async def test_the_warning_comes_before_the_last_attempt(desk: Office) -> None:
    limit(desk, failed_authentications=NARROW, warn_from=3)
    answers = [await Caller(desk).wrong_token() for _ in range(5)]
    assert [answer.json().get("attempts_remaining") for answer in answers] == [None, 2, 1, 0, 0]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 401, 429]
    assert answers[1].json()["message"].endswith("Attempts remaining before you have to wait: 2.")
    assert "www-authenticate" in answers[3].headers


async def test_invalid_calls_are_bounded_for_each_run_of_its_own(desk: Office) -> None:
    limit(desk, invalid_calls=NARROW)
    caller, one, other = Caller(desk), await open_run(desk), await open_run(desk)
    answers = [await caller.invalid_call(one) for _ in range(6)]
    assert codes(answers) == ["INVALID_INPUT"] * 4 + ["RATE_LIMITED"] * 2
    assert answers[3].json()["attempts_remaining"] == 0
    problem = answers[-1].json()
    assert (problem["action"], problem["attempts_remaining"]) == ("retry_after_delay", 0)
    assert answers[-1].headers["retry-after"] == str(problem["retry_after_seconds"])
    assert "invalid_fields" not in problem
    assert codes([await caller.invalid_call(other)]) == ["INVALID_INPUT"]
    assert (await caller.tools(one)).status_code == 200


async def test_many_runs_behind_one_address_are_bounded_together(desk: Office) -> None:
    limit(desk, invalid_calls_by_address=NARROW)
    answers = [await Caller(desk).invalid_call(await open_run(desk)) for _ in range(6)]
    assert codes(answers) == ["INVALID_INPUT"] * 4 + ["RATE_LIMITED"] * 2
    elsewhere = await Caller(desk, "203.0.113.8").invalid_call(await open_run(desk))
    assert codes([elsewhere]) == ["INVALID_INPUT"]


async def test_a_busy_runtime_whose_agents_err_now_and_then_is_not_stopped(desk: Office) -> None:
    """By default: 76 invalid calls among 297 runs from one address, as fast as they come."""
    caller = Caller(desk)
    tokens = [await open_run(desk) for _ in range(76)]
    answers = [await caller.invalid_call(token) for token in tokens]
    assert set(codes(answers)) == {"INVALID_INPUT"}
    assert not any("attempts_remaining" in answer.json() for answer in answers)


async def test_every_kind_of_invalid_call_counts_and_good_ones_do_not(desk: Office) -> None:
    caller, token = Caller(desk), await open_run(desk)
    client, bearer = caller._client, {"Authorization": f"Bearer {token}"}
    for _ in range(3):
        assert (await caller.tools(token)).status_code == 200
    assert await desk.ledger.system.fetchval("SELECT count(*) FROM attempts") == 0
    refused = [
        await client.post("/v1/tool-calls", headers=bearer, content=b"{", params={"wait_seconds": 0}),
        await client.post("/v1/tool-calls", headers=bearer, json={"tool": "nothing", "arguments": {}}),
        await client.post("/v1/tool-calls", headers=bearer, json={}, params={"wait_seconds": -1}),
        await client.get(f"/v1/tool-calls/act_{'0' * 32}", headers=bearer),
        await client.get("/v1/approvals", headers=bearer),
    ]
    assert codes(refused) == ["INVALID_INPUT", "TOOL_NOT_AVAILABLE", "INVALID_INPUT", "INVALID_INPUT", "FORBIDDEN"]
    counted = await desk.ledger.system.fetch(
        "SELECT subject, count FROM attempts WHERE seconds = 3600 ORDER BY subject"
    )
    assert [(row["subject"].rstrip("0123456789abcdef_"), row["count"]) for row in counted] == [
        ("calls:address:", 5),
        ("calls:run", 5),
    ]


async def test_no_address_and_no_token_is_stored(desk: Office) -> None:
    await Caller(desk).wrong_token()
    await Caller(desk).invalid_call(await open_run(desk))
    stored = str(await desk.ledger.system.fetch("SELECT * FROM attempts"))
    assert "203.0.113.7" not in stored
    assert "cs_run" not in stored


async def test_many_addresses_fill_a_bounded_number_of_rows(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.limits._SLOTS", 8)
    for batch in range(10):
        callers = [Caller(desk, f"198.51.{batch}.{n}") for n in range(10)]
        await asyncio.gather(*(caller.wrong_token() for caller in callers))
    assert await desk.ledger.system.fetchval("SELECT count(*) FROM attempts WHERE seconds = 3600") <= 8


async def test_one_ipv6_network_is_one_caller(desk: Office) -> None:
    limit(desk, failed_authentications=NARROW)
    answers = [await Caller(desk, f"2001:db8:1:2::{n:x}").wrong_token() for n in range(6)]
    assert [answer.status_code for answer in answers] == [401] * 4 + [429] * 2
    assert (await Caller(desk, "2001:db8:1:3::1").wrong_token()).status_code == 401


async def test_without_the_database_a_refusal_stays_what_it_is(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*arguments: Any) -> Any:
        raise OSError

    monkeypatch.setattr("ledger.attempts.Attempts.count", away)
    answer = await Caller(desk).wrong_token()
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED")


# Where callers are, behind proxies


def settings(**changes: Any) -> Settings:
    return Settings(database_url="postgresql://x", master_key_file="/x", **changes)  # pyright: ignore


async def answered(desk: Office, settings: Settings, forwarded: list[str | bytes]) -> list[int]:
    """Statuses of wrong tokens through 10.1.2.3, with these `X-Forwarded-For`."""
    limit(desk, failed_authentications=NARROW)
    served = uvicorn.Config(desk.app, **server_options(settings))
    served.load()
    transport = httpx.ASGITransport(cast("Any", served.loaded_app), client=("10.1.2.3", 50_000))
    async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
        sent = [[*WRONG.items(), ("X-Forwarded-For", each)] for each in forwarded]
        return [(await client.get("/v1/tools", headers=cast("Any", headers))).status_code for headers in sent]


async def test_who_says_to_be_somebody_else_is_not_believed(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    statuses = await answered(desk, settings(), [f"198.51.100.{n}" for n in range(6)])
    assert statuses == [401] * 4 + [429] * 2


async def test_a_trusted_proxy_is_believed_for_the_address_that_it_added(desk: Office) -> None:
    trusting = settings(trusted_proxies="10.0.0.0/8, 192.0.2.1")
    # The last one is the proxy's own word; what stands before it is the caller's.
    same = await answered(desk, trusting, [f"198.51.100.{n}, 203.0.113.9" for n in range(6)])
    assert same == [401] * 4 + [429] * 2
    assert await answered(desk, trusting, [f"203.0.113.{n}" for n in range(10, 16)]) == [401] * 6
    assert await answered(desk, trusting, ["junk\x01", "", ",,,", "::1%lo, ☂".encode()]) == [401] * 4


def test_the_settings_are_the_limits() -> None:
    assert limits_of(settings()) == Limits()
    changed = settings(
        failed_authentications_per_minute=1,
        failed_authentications_per_hour=2,
        invalid_calls_per_minute=3,
        invalid_calls_per_hour=4,
        address_invalid_calls_per_minute=5,
        address_invalid_calls_per_hour=6,
    )
    assert limits_of(changed) == Limits(Pace(1, 2), Pace(3, 4), Pace(5, 6))
