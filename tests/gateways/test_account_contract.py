"""Accounts, credit, parcels and refund drafts of every order system, played against a real one."""

import secrets
from typing import Any

import httpx
import pytest

from gateways.protocols import CreditRequest, DraftRequest, OrderSystem, SystemUnavailable
from gateways.registry import ORDER_SYSTEMS, order_system
from schemas.codes import Code
from schemas.effects import Absent, Confirmed, Failed, Unknown
from tests import loopback
from tests.gateways.canned import Serve, canned
from tests.gateways.peers.sandbox import SandboxPeer


@pytest.fixture(params=sorted(ORDER_SYSTEMS))
def orders(request: pytest.FixtureRequest, sandbox: SandboxPeer, client: httpx.AsyncClient) -> OrderSystem:
    return order_system(request.param, sandbox.endpoint(sandbox.store_url), client, sandbox.egress)


def _ids() -> dict[str, str]:
    return {"operation_id": f"op_{secrets.token_hex(16)}", "idempotency_key": f"key_{secrets.token_hex(16)}"}


def draft_of(order: dict[str, Any], **changes: Any) -> DraftRequest:
    values = {
        "order_id": order["order_id"],
        "payment_id": None,
        "amount": 2_000,
        "currency": "USD",
        "reason": "damaged",
    }
    return DraftRequest.model_validate(values | _ids() | changes)


def credit_of(order: dict[str, Any], **changes: Any) -> CreditRequest:
    values = {"customer_id": order["customer_id"], "amount": 500, "currency": "USD", "reason": "goodwill"}
    return CreditRequest.model_validate(values | _ids() | changes)


async def test_an_account_is_read_without_who_the_customer_is(orders: OrderSystem, sandbox: SandboxPeer) -> None:
    put = await sandbox.order(status="open")
    account = await orders.account(put["customer_id"])
    assert account is not None
    assert (account.tier, account.currency, account.credit_cents, account.open_orders) == ("standard", "USD", 0, 1)
    assert "Ada" not in account.model_dump_json()
    assert await orders.account("cus_nobody") is None


async def test_a_parcel_is_read_newest_event_first(orders: OrderSystem, sandbox: SandboxPeer) -> None:
    put = await sandbox.order(tracking_ids=[f"T{secrets.token_hex(5)}"])
    events = [
        {"at": "2026-01-03T00:00:00Z", "state": "in_transit", "place": "A"},
        {"at": "2026-01-04T00:00:00Z", "state": "delivered", "place": "B"},
    ]
    await sandbox.shipment(put, events=events)
    parcel = await orders.shipment(put["tracking_ids"][0])
    assert parcel is not None
    assert [each.state for each in parcel.events] == ["delivered", "in_transit"]
    assert (parcel.order_id, parcel.note) == (put["order_id"], "Leave it at the back door")
    assert await orders.shipment("unknown") is None
    assert await orders.shipment("no/../path") is None


async def test_a_draft_is_written_once_confirmed_and_found(orders: OrderSystem, sandbox: SandboxPeer) -> None:
    request = draft_of(await sandbox.order())
    assert isinstance(await orders.find_draft(request), Absent)
    outcome, again = await orders.create_draft(request), await orders.create_draft(request)
    assert isinstance(outcome, Confirmed)
    assert isinstance(again, Confirmed)
    assert outcome.result == again.result
    found = await orders.find_draft(request)
    assert isinstance(found, Confirmed)
    assert found.result == outcome.result
    draft = await orders.draft(outcome.remote_id)
    assert draft is not None
    assert (draft.order_id, draft.amount_cents, draft.currency, draft.reason) == (
        request.order_id,
        2_000,
        "USD",
        "damaged",
    )
    assert await orders.draft("rfd_unknown") is None


async def test_credit_is_given_once_confirmed_and_found(orders: OrderSystem, sandbox: SandboxPeer) -> None:
    put = await sandbox.order()
    request = credit_of(put)
    assert isinstance(await orders.find_credit(request), Absent)
    outcome = await orders.credit(request)
    assert isinstance(outcome, Confirmed)
    assert outcome.result == {
        "credit_id": outcome.remote_id,
        "amount_cents": 500,
        "currency": "USD",
        "balance_cents": 500,
    }
    assert isinstance(await orders.credit(request), Confirmed)
    account = await orders.account(put["customer_id"])
    assert account is not None
    assert account.credit_cents == 500
    found = await orders.find_credit(request)
    assert isinstance(found, Confirmed)
    assert found.remote_id == outcome.remote_id


async def test_what_the_store_refuses_failed(orders: OrderSystem, sandbox: SandboxPeer) -> None:
    put = await sandbox.order()
    euros = await orders.credit(credit_of(put, currency="EUR"))
    assert isinstance(euros, Failed)
    assert euros.code is Code.REMOTE_REFUSED
    unknown_order = await orders.create_draft(draft_of(put, order_id="ord_unknown"))
    assert isinstance(unknown_order, Failed)


async def test_a_key_that_came_with_another_request_says_nothing(orders: OrderSystem, sandbox: SandboxPeer) -> None:
    put = await sandbox.order()
    request = credit_of(put)
    await orders.credit(request)
    other = request.model_copy(update={"amount": 900})
    assert isinstance(await orders.credit(other), Unknown)


DRAFT = {
    "draft_id": "rfd_1",
    "order_id": "ord_1",
    "customer_id": "cus_1",
    "payment_id": None,
    "amount_cents": 2_000,
    "currency": "USD",
    "reason": "damaged",
    "operation_id": "op_1",
}
CREDIT = {
    "credit_id": "crd_1",
    "customer_id": "cus_1",
    "amount_cents": 500,
    "currency": "USD",
    "operation_id": "op_1",
    "balance_cents": 500,
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"amount_cents": 1},
        {"currency": "EUR"},
        {"operation_id": "op_2"},
        {"customer_id": "cus_2"},
        {"balance_cents": -1},
    ],
)
async def test_a_credit_that_is_not_the_asked_one_is_not_believed(
    sandbox: SandboxPeer, client: httpx.AsyncClient, serve: Serve, wrong: dict[str, Any]
) -> None:
    base = await serve(canned(CREDIT | wrong))
    system = order_system("store", sandbox.endpoint(base), client, loopback.egress(base))
    request = credit_of({"customer_id": "cus_1"}, operation_id="op_1")
    assert isinstance(await system.credit(request), Unknown)


@pytest.mark.parametrize(
    "wrong", [{"amount_cents": 1}, {"currency": "EUR"}, {"operation_id": None}, {"order_id": "ord_2"}, {"reason": None}]
)
async def test_a_draft_that_is_not_the_asked_one_is_not_believed(
    sandbox: SandboxPeer, client: httpx.AsyncClient, serve: Serve, wrong: dict[str, Any]
) -> None:
    base = await serve(canned(DRAFT | wrong))
    system = order_system("store", sandbox.endpoint(base), client, loopback.egress(base))
    assert isinstance(await system.create_draft(draft_of({"order_id": "ord_1"}, operation_id="op_1")), Unknown)


async def test_an_account_of_somebody_else_is_no_fact(
    sandbox: SandboxPeer, client: httpx.AsyncClient, serve: Serve
) -> None:
    account = {
        "customer_id": "cus_2",
        "since": None,
        "tier": "standard",
        "currency": "USD",
        "credit_cents": 0,
        "open_orders": 0,
        "fraud_flag": False,
    }
    base = await serve(canned(account))
    system = order_system("store", sandbox.endpoint(base), client, loopback.egress(base))
    with pytest.raises(SystemUnavailable, match="mismatched"):
        await system.account("cus_1")
