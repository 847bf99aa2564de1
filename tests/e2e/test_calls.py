"""Refunds through the whole stack: HTTP in, Temporal, Postgres, the gateway's own record out."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from temporalio.client import Client

from tests.e2e.running import RunningStack


def test_a_small_refund_runs_once_whatever_is_repeated(stack: RunningStack) -> None:
    customer, key = stack.order(), secrets.token_hex(16)
    first, again = customer.refund(4999, key=key), customer.refund(4999, key=key)
    assert (first.status_code, first.json()["code"]) == (200, "OK")
    assert again.json() == first.json()
    conflict = customer.refund(5000, key=key)
    assert (conflict.status_code, conflict.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert [each["amount"] for each in customer.effects()] == [4999]
    assert customer.posts() == 1


def test_a_large_refund_waits_and_runs_once_after_approval(stack: RunningStack) -> None:
    customer = stack.order()
    parked = customer.refund(31_240)
    assert (parked.status_code, parked.json()["status"]) == (202, "pending_approval")
    assert customer.effects() == []
    decided = customer.decide("approve")
    assert (decided.status_code, decided.json()) == (200, {"status": "approved"})
    assert customer.progress(parked.json()["request_id"])["status"] == "executed"
    assert [each["amount"] for each in customer.effects()] == [31_240]
    assert customer.posts() == 1


def test_a_denied_refund_never_reaches_the_gateway(stack: RunningStack) -> None:
    customer = stack.order()
    parked = customer.refund(31_240).json()
    assert customer.decide("deny").status_code == 422
    assert customer.decide("deny", "not damaged on the photo").json() == {"status": "denied"}
    reply = customer.progress(parked["request_id"])
    assert (reply["status"], reply["code"]) == ("denied", "USER_DENIED")
    assert customer.effects() == []


def test_a_flagged_customer_waits_even_for_little(stack: RunningStack) -> None:
    assert stack.order(fraud=True).refund(500).json()["code"] == "PENDING_APPROVAL"


def test_a_lost_answer_is_looked_up_not_repeated(stack: RunningStack) -> None:
    customer = stack.order()
    stack.fault("refund", "commit_then_drop", customer.payment_id)
    reply = customer.refund(2500)
    assert (reply.status_code, reply.json()["status"]) == (200, "executed")
    assert [each["amount"] for each in customer.effects()] == [2500]
    assert customer.posts() == 1
    events = [each["type"] for each in _events(stack, reply.json()["request_id"])]
    # What was looked up is looked at again after a while.
    assert events[2:7] == ["effect.intended", "effect.unknown", "effect.inspected", "effect.confirmed", "call.settled"]
    assert set(events[7:]) <= {"effect.inspected"}


def test_another_customers_order_is_not_found(stack: RunningStack) -> None:
    mine, other = stack.order(), stack.order()
    mine.order_id = other.order_id
    reply = mine.refund(500)
    assert (reply.status_code, reply.json()["code"]) == (422, "ORDER_NOT_FOUND")


def test_no_more_than_was_paid_however_it_is_split(stack: RunningStack) -> None:
    customer = stack.order(paid=10_000)
    assert customer.refund(6000).json()["code"] == "OK"
    reply = customer.refund(4001).json()
    assert (reply["code"], reply["allowed"]) == ("REFUND_EXCEEDS_PAID", {"max_amount_cents": 4000})
    assert customer.refund(4000).json()["code"] == "OK"


async def test_histories_and_tables_hold_nothing_readable(stack: RunningStack) -> None:
    customer, note = await asyncio.to_thread(stack.order), f"note {secrets.token_hex(8)}"
    reply = (await asyncio.to_thread(customer.refund, 31_240, note)).json()
    secrets_of_this_call = [note.encode(), b"31240", customer.token.encode()]
    client = await Client.connect(stack.info["temporal"])
    found = 0
    async for execution in client.list_workflows():
        history = await client.get_workflow_handle(execution.id).fetch_history()
        raw = b"".join(event.SerializeToString() for event in history.events)
        assert not any(secret in raw for secret in secrets_of_this_call), execution.id
        found += reply["request_id"].encode() not in raw
    assert found, "histories were read"
    async with _every_tenants_rows(stack) as connection:
        for table in ("events", "calls", "approvals", "uses", "diagnostics"):
            rows = await connection.fetch(f"SELECT t::text AS text FROM {table} t")
            assert rows or table == "diagnostics", f"{table} was read"
            text = "\n".join(row["text"] for row in rows)
            assert note not in text
            assert note.encode().hex() not in text


@asynccontextmanager
async def _every_tenants_rows(stack: RunningStack) -> AsyncGenerator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection of ours to the stack's database, past its row-level security."""
    connection = await asyncpg.connect(stack.info["database"], server_settings={"counterseal.tenant": "*"})
    try:
        yield connection
    finally:
        await connection.close()


def _events(stack: RunningStack, request_id: str) -> list[dict[str, Any]]:
    async def read() -> list[dict[str, Any]]:
        async with _every_tenants_rows(stack) as connection:
            query = "SELECT n, type FROM events WHERE request_id = $1 ORDER BY n"
            return [dict(row) for row in await connection.fetch(query, request_id)]

    return asyncio.run(read())
