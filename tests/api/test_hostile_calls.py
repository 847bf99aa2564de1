"""Arguments that try to say more, less or something else than they may: never taken, never echoed, never a call."""

import json
import secrets
from typing import Any

import httpx
import pytest

from tests.api.conftest import Tenant

pytestmark = pytest.mark.asyncio(loop_scope="session")

CANARY = "hunter2_7f3a"


def refund(**changes: Any) -> dict[str, Any]:
    return {
        "order_id": "ord_8f2b91a04c7d",
        "amount_cents": 4_999,
        "currency": "USD",
        "reason_code": "damaged",
        "note": "It arrived broken.",
        "idempotency_key": secrets.token_hex(16),
        **changes,
    }


async def call(tenant: Tenant, arguments: dict[str, Any], tool: str = "issue_refund") -> httpx.Response:
    """Sent as ASCII JSON, so that any text can be said, by a run of its own."""
    body = json.dumps({"tool": tool, "arguments": arguments}).encode()
    token = await tenant.run("cus_1")
    headers = {"Content-Type": "application/json"}
    return await tenant.api.post("/v1/tool-calls", token, content=body, headers=headers)


async def is_refused(tenant: Tenant, arguments: dict[str, Any], status: int = 422) -> dict[str, Any]:
    """The problem; the test fails when there is none, or when anything was begun."""
    before = await begun(tenant)
    answer = await call(tenant, arguments)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert await begun(tenant) == before
    problem = answer.json()
    assert (problem["code"], problem["ok"]) == ("INVALID_INPUT", False)
    return problem


async def begun(tenant: Tenant) -> list[int]:
    """How many calls, events and uses the tenant has; what others began goes on meanwhile."""
    fetch = tenant.api.service.core.ledger.system.fetchval
    return [
        await fetch(f"SELECT count(*) FROM {table} WHERE tenant = $1", tenant.name)
        for table in ("calls", "events", "uses")
    ]


AMOUNTS = [0, -1, None, 1.5, 100.0, 1e2, True, False, "10,00", "10.00", "4999", "", [], {}, [4999], -0.0, 2**53 - 1]


@pytest.mark.parametrize("amount", AMOUNTS, ids=repr)
async def test_an_amount_is_a_whole_number_or_nothing_happens(tenant: Tenant, amount: Any) -> None:
    problem = await is_refused(tenant, refund(amount_cents=amount))
    assert problem["invalid_fields"] == ["amount_cents"]
    assert "amount_cents must be an integer from 100 to 50000" in problem["message"]


async def test_a_missing_amount_never_means_all_of_it(tenant: Tenant) -> None:
    arguments = refund()
    del arguments["amount_cents"]
    problem = await is_refused(tenant, arguments)
    assert "amount_cents is required and must be an integer" in problem["message"]


@pytest.mark.parametrize("field", ["order_id", "currency", "reason_code", "idempotency_key"])
async def test_nothing_that_is_needed_has_a_default(tenant: Tenant, field: str) -> None:
    arguments = refund()
    del arguments[field]
    assert (await is_refused(tenant, arguments))["invalid_fields"] == [field]


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "a\udfff", "\udc00\ud800"], ids=ascii)
async def test_no_string_and_no_name_holds_a_nul_or_half_a_character(tenant: Tenant, text: str) -> None:
    for field in ("order_id", "currency", "reason_code", "note", "idempotency_key"):
        await is_refused(tenant, refund(**{field: text}), 400)
    await is_refused(tenant, refund(**{text: 1}), 400)
    await is_refused(tenant, refund(note={"a": [{text: 1}]}), 400)
    token = await tenant.run("cus_1")
    for body in ({"tool": text, "arguments": {}}, {"tool": "x", "arguments": {}, text: 1}):
        headers = {"Content-Type": "application/json"}
        answer = await tenant.api.post("/v1/tool-calls", token, content=json.dumps(body).encode(), headers=headers)
        assert answer.status_code == 400
    run = {"agent_id": "bot", "actor_id": "user", "customer_id": "cus_1", "tools": ["issue_refund"]}
    for changed in ({**run, name: text} for name in ("agent_id", "actor_id", "customer_id")):
        content = json.dumps(changed).encode()
        answer = await tenant.api.post("/v1/runs", tenant.service_token, content=content, headers=headers)
        assert answer.status_code == 400


LOOK_ALIKES = {
    "Cyrillic": "оrd_8f2b91a04c7d",
    "Cyrillic inside": "ord_8f2b91а04с7d",
    "full-width": "ｏｒｄ＿８ｆ２ｂ９１ａ０４ｃ７ｄ",
    "full-width digits": "ord_８f2b91a04c7d",
    "Arabic digits": "ord_٨f2b91a04c7d",
    "extended Arabic digits": "ord_۸f2b91a04c7d",
    "mathematical digits": "ord_𝟾f2b91a04c7d",
    "superscript": "ord_⁸f2b91a04c7d",
    "zero width": "ord_8f2b\u200b91a04c7d",
    "right to left": "\u202eord_8f2b91a04c7d",
    "a combining mark": "ord_8f2b91a04c7d\u0301",
    "a line break after": "ord_8f2b91a04c7d\n",
    "a space after": "ord_8f2b91a04c7d ",
    "upper case": "ORD_8f2b91a04c7d",
    "a path": "ord_../../refund",
    "a query": "ord_8f2b91a04c7?",
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
async def test_what_looks_like_an_order_id_is_none(tenant: Tenant, name: str) -> None:
    problem = await is_refused(tenant, refund(order_id=LOOK_ALIKES[name]))
    assert problem["invalid_fields"] == ["order_id"]
    assert LOOK_ALIKES[name] not in json.dumps(problem, ensure_ascii=False)


@pytest.mark.parametrize(
    "key", ["АBCDEF0123456789abcdef0123456789", "0" * 31, "0" * 33, "A" * 32, "0" * 32 + "\n", "٠" * 32]
)
async def test_what_looks_like_a_key_is_none(tenant: Tenant, key: str) -> None:
    assert (await is_refused(tenant, refund(idempotency_key=key)))["invalid_fields"] == ["idempotency_key"]


EXTRA = {
    "approved": True,
    "threshold": 1_000_000_000,
    "tenant_id": "other",
    "tenant": "other",
    "customer_id": "cus_2",
    "actor_id": "admin",
    "dry_run": False,
    "policy": "allow_all",
    "refund_all": True,
    "__proto__": {"approved": True},
    "constructor": {},
    "amount_cents ": 1,
    "Amount_Cents": 1,
    "amount_сents": 1,
    "": 1,
}


@pytest.mark.parametrize("name", EXTRA)
async def test_an_argument_that_the_tool_does_not_have_is_refused(tenant: Tenant, name: str) -> None:
    problem = await is_refused(tenant, refund(**{name: EXTRA[name]}))
    assert problem["invalid_fields"] == []
    assert "a field that the tool's input_schema does not know" in problem["message"]


async def test_a_secret_sent_by_mistake_is_echoed_nowhere(tenant: Tenant, capfd: pytest.CaptureFixture[str]) -> None:
    name = f"sk_live_{CANARY}"
    for arguments in (
        refund(**{name: CANARY}),
        refund(note={name: CANARY}),
        refund(currency=CANARY, reason_code=CANARY, order_id=CANARY, idempotency_key=CANARY, amount_cents=CANARY),
    ):
        answer = await call(tenant, arguments)
        assert answer.status_code == 422
        assert CANARY not in answer.text + str(answer.headers)
    answer = await call(tenant, refund(), tool=CANARY)
    assert answer.status_code == 403
    assert CANARY not in answer.text + str(answer.headers)
    token = await tenant.run("cus_1")
    answer = await tenant.api.get(f"/v1/tools?access_token={CANARY}&wait_seconds={CANARY}", f"{CANARY}")
    assert (answer.status_code, CANARY in answer.text + str(answer.headers)) == (401, False)
    answer = await tenant.api.get(f"/v1/tool-calls/{CANARY}?wait_seconds={CANARY}", token)
    assert CANARY not in answer.text + str(answer.headers)
    written = capfd.readouterr()
    assert CANARY not in written.out + written.err
    for table in ("attempts", "diagnostics", "tokens"):
        rows = await tenant.api.service.core.ledger.system.fetch(f"SELECT * FROM {table}")
        assert CANARY not in str([dict(row) for row in rows])


async def test_a_compressed_body_is_not_opened(tenant: Tenant) -> None:
    token = await tenant.run("cus_1")
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = await tenant.api.post("/v1/tool-calls", token, content=b"\x1f\x8b", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (415, "INVALID_INPUT")
