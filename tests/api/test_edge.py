"""Bodies: what is not plain, bounded, unambiguous JSON never becomes a call, and nothing of it comes back."""

import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.api.conftest import Api, Tenant

pytestmark = pytest.mark.asyncio(loop_scope="session")

JSON = {"Content-Type": "application/json"}
CANARY = "canary_7f3a"


def _body(amount: str = "4999", more: str = "", note: str = '"n"') -> bytes:
    key = secrets.token_hex(16)
    arguments = (
        f'"order_id": "ord_8f2b91a04c7d", "amount_cents": {amount}, "currency": "USD", "reason_code": "damaged",'
        f' "note": {note}, "idempotency_key": "{key}"{more}'
    )
    return f'{{"tool": "issue_refund", "arguments": {{{arguments}}}}}'.encode()


Send = Callable[..., Awaitable[httpx.Response]]


@pytest.fixture
def send(api: Api, run_token: str) -> Send:
    async def send(content: Any, **headers: str) -> httpx.Response:
        return await api.post("/v1/tool-calls", run_token, content=content, headers={**JSON, **headers})

    return send


MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"refund please",
    "cut off": _body()[:-1],
    "two documents": _body() + b"{}",
    "duplicate keys": _body(more=', "amount_cents": 1'),
    "duplicate keys outside": b'{"tool": "issue_refund", "tool": "lookup_orders", "arguments": {}}',
    "NaN": _body("NaN"),
    "Infinity": _body("-Infinity"),
    "a number beyond every float": _body("1e400"),
    "a 5,000-digit number": _body("9" * 5_000),
    "beyond 2^53": _body("9007199254740993"),
    "10^5 brackets": b"[" * 100_000,
    "30,000 brackets": b"[" * 30_000,
    "20 deep": _body(note="[" * 20 + "]" * 20),
    "NUL": _body(note='"\\u0000"'),
    "raw NUL": _body(note='"\0"'),
    "lone surrogate": _body(note='"\\ud83d"'),
    "lone surrogate as a name": _body(more=', "\\udc00": 1'),
    "no UTF-8": _body(note='"').replace(b'"note": "', b'"note": "\xff"'),
    "UTF-16": _body().decode().encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf" + _body(),
    "a comment": b"/* */" + _body(),
    "a trailing comma": _body(more=","),
    "single quotes": _body().replace(b'"', b"'"),
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_what_is_no_strict_json_is_refused(api: Api, send: Send, name: str) -> None:
    before = await api.rows()
    answer = await send(MALFORMED[name])
    expected = 413 if len(MALFORMED[name]) > 64 * 1024 else 400
    assert answer.status_code == expected
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["code"], problem["http_status"], problem["action"]) == ("INVALID_INPUT", expected, "repair_input")
    assert await api.rows() == before


NO_AMOUNTS = ["1e2", "100.0", "true", '"100"', "null", "-100", "99", "50001", "[4999]", "-0", "{}"]


@pytest.mark.parametrize("amount", NO_AMOUNTS)
async def test_what_is_no_integer_amount_is_refused(send: Send, amount: str) -> None:
    answer = await send(_body(amount))
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["code"] == "INVALID_INPUT"
    assert problem["invalid_fields"] == ["amount_cents"]


@pytest.mark.parametrize("body", [b"[]", b"1", b'"text"', b"null", b"true"])
async def test_what_is_no_object_is_refused(send: Send, body: bytes) -> None:
    assert (await send(body)).status_code == 422


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", "", "application/jsonx"],
)
async def test_another_content_type_is_refused(send: Send, content_type: str) -> None:
    answer = await send(_body(), **{"Content-Type": content_type})
    assert answer.status_code == 415
    assert answer.json()["code"] == "INVALID_INPUT"


async def test_the_charset_may_be_said(send: Send) -> None:
    answer = await send(_body(), **{"Content-Type": "application/json; charset=UTF-8"})
    assert answer.json()["code"] == "ORDER_NOT_FOUND"


async def test_a_body_that_is_too_large_is_refused_whatever_it_says_of_its_length(send: Send) -> None:
    large = _body(note=json.dumps("n" * 70_000))
    assert (await send(large)).status_code == 413

    async def chunks() -> Any:
        for _ in range(100):
            yield b" " * 1_000

    assert (await send(chunks())).status_code == 413
    for length in ("9" * 30, "70000"):
        assert (await send(b"{}", **{"Content-Length": length})).status_code == 413


@pytest.mark.parametrize(
    "more",
    [
        {CANARY: 1},
        {"arguments": {CANARY: "x"}},
        {"arguments": {"customer_id": CANARY}},
        {"arguments": {"order_id": CANARY}},
        {"arguments": {"currency": CANARY}},
        {"arguments": {"reason_code": CANARY}},
        {"arguments": {"idempotency_key": CANARY}},
        {"tool": CANARY},
        {"dry_run": CANARY},
    ],
)
async def test_nothing_that_was_sent_comes_back(send: Send, more: dict[str, Any]) -> None:
    body = json.loads(_body())
    body = {**body, **more, "arguments": {**body["arguments"], **more.get("arguments", {})}}
    answer = await send(json.dumps(body).encode())
    assert answer.status_code in (403, 422)
    assert CANARY not in answer.text
    assert CANARY not in str(answer.headers)


@pytest.mark.parametrize("body", [{}, {"tool": "issue_refund"}, {"arguments": {}}, {"tool": 1, "arguments": {}}])
async def test_an_envelope_that_lacks_something_names_it(send: Send, body: dict[str, Any]) -> None:
    answer = await send(json.dumps(body).encode())
    assert answer.status_code == 422
    assert set(answer.json()["invalid_fields"]) <= {"tool", "arguments"}


@pytest.mark.parametrize("wait", ["-1", "61", "x", "1.5", ""])
async def test_a_wait_beyond_its_bounds_is_refused(api: Api, run_token: str, wait: str) -> None:
    answer = await api.post(f"/v1/tool-calls?wait_seconds={wait}", run_token, content=_body(), headers=JSON)
    assert answer.status_code == 422
    assert answer.json()["invalid_fields"] == ["wait_seconds"]


@pytest.mark.parametrize(
    "change",
    [
        {"agent_id": "a b"},
        {"agent_id": ""},
        {"customer_id": None},
        {"tools": []},
        {"tools": "issue_refund"},
        {"expires_in_seconds": 59},
        {"expires_in_seconds": 86_401},
        {"expires_in_seconds": True},
        {"expires_in_seconds": "3600"},
        {"tenant": "another"},
    ],
)
async def test_a_run_of_the_wrong_form_is_not_opened(somebody: Tenant, change: dict[str, Any]) -> None:
    body = {"agent_id": "bot", "actor_id": "user", "customer_id": "cus_1", "tools": ["issue_refund"], **change}
    answer = await somebody.api.post("/v1/runs", somebody.service_token, json=body)
    assert answer.status_code == 422
    assert answer.json()["code"] == "INVALID_INPUT"
