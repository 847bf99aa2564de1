"""Tools come with the phase of a run, and leave with it."""

import asyncio
import secrets
from typing import Any

import pytest
import pytest_asyncio
from pydantic import JsonValue

from tests.api.conftest import Tenant

pytestmark = pytest.mark.asyncio(loop_scope="session")

DRAFT, SUBMIT = "draft_refund_request", "submit_refund_for_approval"


async def offered(tenant: Tenant, token: str) -> list[str]:
    return [tool["name"] for tool in (await tenant.api.get("/v1/tools", token)).json()["tools"]]


class Case:
    """A run that may draft a refund and submit it."""

    def __init__(self, tenant: Tenant, token: str, order_id: str) -> None:
        self.tenant = tenant
        self.token = token
        self.order_id = order_id

    async def call(self, tool: str, **arguments: JsonValue) -> dict[str, Any]:
        given: dict[str, JsonValue] = {"order_id": self.order_id, "idempotency_key": secrets.token_hex(16)}
        answer = await self.tenant.api.call(self.token, {**given, **arguments}, tool)
        return answer.json()

    async def draft(self) -> str:
        asked: dict[str, JsonValue] = {"amount_cents": 2_000, "currency": "USD", "reason_code": "damaged"}
        reply = await self.call(DRAFT, **asked)
        assert reply["status"] == "executed", reply
        return reply["result"]["draft_id"]


@pytest_asyncio.fixture(loop_scope="session")
async def case(tenant: Tenant) -> Case:
    order = await tenant.api.service.outside.order()
    return Case(tenant, await tenant.run(order["customer_id"], tools=(DRAFT, SUBMIT)), order["order_id"])


async def test_submitting_comes_with_a_draft_and_leaves_when_it_is_submitted(case: Case) -> None:
    assert await offered(case.tenant, case.token) == [DRAFT]
    draft_id = await case.draft()
    assert await offered(case.tenant, case.token) == [DRAFT, SUBMIT]
    key = secrets.token_hex(16)
    submitted = await case.call(SUBMIT, draft_id=draft_id, idempotency_key=key)
    assert submitted["status"] == "pending_approval", submitted
    assert await offered(case.tenant, case.token) == [DRAFT]
    again = await case.call(SUBMIT, draft_id=draft_id, idempotency_key=key)
    assert again["request_id"] == submitted["request_id"], "the same call is answered for ever"
    await case.tenant.api.post(f"/v1/tool-calls/{submitted['request_id']}/cancel", case.token)
    assert await offered(case.tenant, case.token) == [DRAFT, SUBMIT], "what came to nothing can be submitted again"


async def test_a_tool_of_another_phase_is_not_available_by_name(case: Case) -> None:
    reply = await case.call(SUBMIT, draft_id="rfd_0123456789ab")
    assert (reply["code"], reply["action"]) == ("TOOL_NOT_AVAILABLE", "use_other_tool")
    assert (reply["use_tool"], reply["allowed"]) == (DRAFT, {"tools": DRAFT})
    await case.draft()
    await case.call(SUBMIT, draft_id=await case.draft())
    assert (await case.call(SUBMIT, draft_id="rfd_0123456789ab"))["code"] == "TOOL_NOT_AVAILABLE"


async def test_a_dry_run_says_so_too(case: Case) -> None:
    given: dict[str, JsonValue] = {"order_id": case.order_id, "draft_id": "rfd_0123456789ab"}
    given["idempotency_key"] = secrets.token_hex(16)
    answer = await case.tenant.api.call(case.token, given, SUBMIT, dry_run=True)
    assert answer.json()["code"] == "TOOL_NOT_AVAILABLE"


async def test_of_several_at_once_one_is_in_time(case: Case) -> None:
    draft_id = await case.draft()
    replies = await asyncio.gather(*(case.call(SUBMIT, draft_id=draft_id) for _ in range(4)))
    assert sorted(reply["code"] for reply in replies) == ["PENDING_APPROVAL", *["TOOL_NOT_AVAILABLE"] * 3]


async def test_another_run_of_the_same_customer_has_its_own_phase(case: Case) -> None:
    await case.draft()
    order = await case.tenant.api.service.outside.order()
    other = await case.tenant.run(order["customer_id"], tools=(DRAFT, SUBMIT))
    assert await offered(case.tenant, other) == [DRAFT]
