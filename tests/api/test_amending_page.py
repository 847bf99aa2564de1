"""Asking for less than an agent did, on the web form."""

import httpx
import pytest

from ledger.records import CallRecord
from schemas.decisions import Approval
from tests.api.markup import forbidden
from tests.api.parked import TENANT, Office
from tests.api.test_pages import HOSTILE, hidden


async def _send(client: httpx.AsyncClient, approval: Approval, **fields: str) -> httpx.Response:
    path = f"/approvals/{approval.approval_id}/amendment"
    page = await client.get(path)
    assert page.status_code == 200
    sent = {
        "csrf": hidden(page.text, "csrf"),
        "amount_cents": "312.40",
        "reason_code": "not_delivered",
        "reason": "why",
    }
    return await client.post(path, data=sent | fields)


async def _record(desk: Office, approval: Approval) -> CallRecord:
    return await desk.ledger.calls.read(approval.request_id)


async def test_less_is_asked_for_and_then_decided(desk: Office, ana: httpx.AsyncClient) -> None:
    approval = await desk.park()
    path = f"/approvals/{approval.approval_id}"
    assert f'href="{path}/amendment"' in (await ana.get(path)).text
    page = await ana.get(f"{path}/amendment")
    assert 'value="312.40"' in page.text
    assert '<option value="not_delivered" selected>' in page.text
    answer = await _send(ana, approval, amount_cents="250,00", reason_code="goodwill")
    record = await _record(desk, approval)
    assert record.approval_id != approval.approval_id
    assert (answer.status_code, answer.headers["location"]) == (303, f"/approvals/{record.approval_id}")
    assert record.details.call.arguments["amount_cents"] == 25_000
    assert record.details.call.arguments["reason_code"] == "goodwill"
    assert "Refund 250.00 USD" in (await ana.get(answer.headers["location"])).text
    assert desk.temporal.signals == []
    # The page of the first one no longer changes or decides anything.
    again = await ana.get(f"/approvals/{approval.approval_id}/amendment")
    assert again.status_code == 409
    closed = (await ana.get(path)).text
    assert "ana asked for less instead" in closed
    assert f'href="/approvals/{record.approval_id}"' in closed


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"amount_cents": "312.41"}, "more than was asked for"),
        ({}, "change something"),
        ({"amount_cents": "0.50"}, "not what the tool takes"),
        ({"amount_cents": "1e2"}, "not what the tool takes"),
        ({"amount_cents": "250.001"}, "not what the tool takes"),
        ({"amount_cents": "-5"}, "not what the tool takes"),
        ({"amount_cents": ""}, "not what the tool takes"),
        ({"amount_cents": "250", "reason_code": "because"}, "not what the tool takes"),
        ({"amount_cents": "250", "reason": "  "}, "Say why you change it."),
        ({"amount_cents": "250", "reason": "x" * 2001}, "too long"),
    ],
)
async def test_what_is_not_taken_is_said_and_changes_nothing(
    desk: Office, ana: httpx.AsyncClient, fields: dict[str, str], said: str
) -> None:
    approval = await desk.park()
    answer = await _send(ana, approval, **fields)
    assert answer.status_code == 422
    assert said in answer.text
    assert (await _record(desk, approval)).approval_id == approval.approval_id


async def test_what_was_typed_is_kept_and_harmless(desk: Office, ana: httpx.AsyncClient) -> None:
    approval = await desk.park()
    answer = await _send(ana, approval, amount_cents=HOSTILE, reason=HOSTILE)
    assert answer.status_code == 422
    assert HOSTILE not in answer.text
    assert not forbidden(answer.text)


async def test_looking_changes_nothing_and_a_form_from_elsewhere_neither(desk: Office, ana: httpx.AsyncClient) -> None:
    approval = await desk.park()
    path = f"/approvals/{approval.approval_id}/amendment"
    for method in ("GET", "HEAD"):
        assert (await ana.request(method, path, params={"amount_cents": "1"})).status_code == 200
    assert (await ana.post(path, data={"amount_cents": "250", "reason": "why"})).status_code == 403
    assert (await _record(desk, approval)).approval_id == approval.approval_id
    assert "approval.viewed" not in [event.type for _, event in await desk.ledger.calls.events(approval.request_id)]


async def test_it_is_for_those_who_may_decide_it(desk: Office, ana: httpx.AsyncClient) -> None:
    paths = [
        f"/approvals/{approval.approval_id}/amendment"
        for approval in (await desk.park(actor_id="Ana"), await desk.park(approvers="support"))
    ]
    for path in paths:
        assert (await ana.get(path)).status_code == 403
    assert (await ana.get("/approvals/apr_1/amendment")).status_code == 404
    elsewhere = await desk.park(tenant=f"{TENANT}-other")
    assert (await ana.get(f"/approvals/{elsewhere.approval_id}/amendment")).status_code == 404


async def test_a_tool_of_which_nothing_can_be_changed(desk: Office, ana: httpx.AsyncClient) -> None:
    arguments = {"order_id": "ord_8f2b91a04c7d", "idempotency_key": "0" * 32, "reason_code": "other"}
    approval = await desk.park(tool="cancel_order", arguments=arguments)
    assert (await ana.get(f"/approvals/{approval.approval_id}/amendment")).status_code == 409
    assert "Ask for less" not in (await ana.get(f"/approvals/{approval.approval_id}")).text
