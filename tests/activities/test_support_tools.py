"""The support toolset's whole life: admitted, held, executed once, looked up, against the store and the helpdesk."""

import secrets
from dataclasses import replace
from typing import Any

import pytest
from pydantic import JsonValue

from gateways.protocols import SystemUnavailable
from ledger.records import CallRecord
from schemas.calls import Progress
from tests.activities.desk import Desk
from tests.service import Service, systems_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOOLS = (
    "issue_refund",
    "get_refund_eligibility",
    "lookup_account",
    "lookup_shipment",
    "search_help_articles",
    "draft_refund_request",
    "submit_refund_for_approval",
    "issue_account_credit",
    "create_ticket_reply_draft",
    "post_approved_ticket_reply",
)


class Run:
    """One run of a customer, and the calls it makes."""

    def __init__(self, desk: Desk, run_id: str) -> None:
        self.desk = desk
        self._run_id = run_id

    async def call(self, tool: str, **arguments: JsonValue) -> CallRecord:
        entry = self.desk.service.services.catalog.get(tool)
        assert entry is not None
        if entry.manifest.writes:
            arguments["idempotency_key"] = secrets.token_hex(16)
        asked = await self.desk.service.input_for(self._run_id, arguments, tool)
        progress = await self.desk.admit(*asked)
        return await self.desk.record(progress.request_id)

    async def result(self, tool: str, **arguments: JsonValue) -> dict[str, Any]:
        record = await self.call(tool, **arguments)
        assert record.status == "executed", (record.code, record.details.explanation)
        result = record.details.result
        assert result is not None
        return result

    async def approve(self, record: CallRecord) -> CallRecord:
        approval = await self.desk.service.approval(record)
        progress: Progress = await self.desk.approved(approval)
        return await self.desk.record(progress.request_id)


@pytest.fixture
def desk(wired: Service) -> Desk:
    return Desk(wired)


async def run_of(desk: Desk, order: dict[str, Any], **more: Any) -> Run:
    return Run(desk, (await desk.service.open_run(order["customer_id"], tools=TOOLS, **more)).run_id)


async def test_eligibility_is_what_the_refund_is_then_told(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    run = await run_of(desk, order)
    refund: dict[str, JsonValue] = {"order_id": order["order_id"], "currency": "USD", "reason_code": "damaged"}
    small = await run.result("get_refund_eligibility", order_id=order["order_id"], amount_cents=4_999)
    assert (small["eligible"], small["needs_approval"], small["max_amount_cents"]) == (True, False, 50_000)
    large = await run.result("get_refund_eligibility", order_id=order["order_id"])
    assert (large["amount_cents"], large["eligible"], large["needs_approval"]) == (50_000, True, True)
    assert await desk.service.outside.effects(order) == []
    free = await run.call("issue_refund", **refund, amount_cents=4_999)
    assert free.status == "executed"
    held = await run.call("issue_refund", **refund, amount_cents=45_001)
    assert held.status == "pending_approval"
    # What waits for a person is not there to be had twice.
    rest = await run.result("get_refund_eligibility", order_id=order["order_id"])
    assert (rest["max_amount_cents"], rest["eligible"]) == (0, False)


async def test_eligibility_says_why_not(desk: Desk) -> None:
    order = await desk.service.outside.order(disputed=True)
    run = await run_of(desk, order)
    told = await run.result("get_refund_eligibility", order_id=order["order_id"])
    assert (told["eligible"], told["max_amount_cents"]) == (False, 0)
    assert "disputed" in told["because"]
    other = await desk.service.outside.order()
    assert (await run.call("get_refund_eligibility", order_id=other["order_id"])).code == "ORDER_NOT_FOUND"
    switches = desk.service.core.ledger.switches
    tenant = (await run.call("lookup_account")).tenant
    opened = await desk.service.outside.order()
    mine = Run(desk, (await desk.service.open_run(opened["customer_id"], tenant=tenant, tools=TOOLS)).run_id)
    await switches.turn_off(tenant, "tool:issue_refund", reason="a look", by="olga")
    stopped = await mine.result("get_refund_eligibility", order_id=opened["order_id"])
    assert stopped["eligible"] is False


async def test_a_drafted_refund_is_made_once_people_agreed(desk: Desk) -> None:
    order = await desk.service.outside.order(90_000)
    run = await run_of(desk, order)
    draft = await run.result(
        "draft_refund_request", order_id=order["order_id"], amount_cents=30_000, currency="USD", reason_code="damaged"
    )
    assert await desk.service.outside.effects(order) == []
    submit: dict[str, JsonValue] = {"draft_id": draft["draft_id"], "order_id": order["order_id"], "note": "urgent"}
    parked = await run.call("submit_refund_for_approval", **submit)
    assert parked.status == "pending_approval"
    approval = await desk.service.approval(parked)
    assert (approval.approvers, approval.amount, approval.untrusted) == ("finance", 30_000, {"note": "urgent"})
    again = await run.call("submit_refund_for_approval", **submit)
    assert (again.code, again.rule) == ("TOOL_NOT_AVAILABLE", "phase")
    other = await run_of(desk, order, tenant=parked.tenant)
    await other.result(
        "draft_refund_request", order_id=order["order_id"], amount_cents=1_000, currency="USD", reason_code="damaged"
    )
    again = await other.call("submit_refund_for_approval", **submit)
    assert (again.code, again.rule) == ("NOT_REFUNDABLE", "submitted_already")
    done = await run.approve(parked)
    assert (done.status, (done.details.result or {})["amount_cents"]) == ("executed", 30_000)
    assert [each["amount"] for each in await desk.service.outside.effects(order)] == [30_000]


async def test_what_one_tool_gives_back_counts_for_the_other(desk: Desk) -> None:
    """Money of a customer is the same money: neither threshold nor cap begins anew with another tool."""
    order = await desk.service.outside.order(90_000)
    run = await run_of(desk, order)
    common: dict[str, JsonValue] = {"order_id": order["order_id"], "currency": "USD", "reason_code": "damaged"}
    draft = await run.result("draft_refund_request", **common, amount_cents=15_000)
    parked = await run.call("submit_refund_for_approval", draft_id=draft["draft_id"], order_id=order["order_id"])
    assert (await run.approve(parked)).status == "executed"
    own = Run(desk, (await desk.service.open_run(order["customer_id"], tenant=parked.tenant, tools=TOOLS)).run_id)
    held = await own.call("issue_refund", **common, amount_cents=10_000)
    assert held.status == "pending_approval"
    assert held.details.decision is not None
    assert {"customer_24h", "order_total", "customer_30d"} & set(held.details.decision.rules) >= {
        "customer_24h",
        "order_total",
    }


async def test_a_lost_answer_of_a_submitted_refund_is_looked_up(desk: Desk) -> None:
    order = await desk.service.outside.order(30_000)
    run = await run_of(desk, order)
    draft = await run.result(
        "draft_refund_request", order_id=order["order_id"], amount_cents=30_000, currency="USD", reason_code="damaged"
    )
    parked = await run.call("submit_refund_for_approval", draft_id=draft["draft_id"], order_id=order["order_id"])
    await desk.service.outside.fault("commit_then_drop", order)
    assert (await run.approve(parked)).status == "outcome_unknown"
    await desk.inspect(parked.request_id)
    assert (await desk.record(parked.request_id)).status == "executed"
    assert len(await desk.service.outside.effects(order)) == 1


async def test_credit_runs_by_itself_up_to_what_the_policy_says(desk: Desk) -> None:
    order = await desk.service.outside.order()
    run = await run_of(desk, order)
    credit: dict[str, JsonValue] = {"currency": "USD", "reason_code": "late_delivery"}
    given = await run.result("issue_account_credit", amount_cents=1_500, **credit)
    assert (given["amount_cents"], given["balance_cents"]) == (1_500, 1_500)
    held = await run.call("issue_account_credit", amount_cents=4_000, **credit)
    assert (held.status, held.rule) == ("pending_approval", "customer_24h")
    assert (await run.result("lookup_account"))["credit_cents"] == 1_500
    assert (await run.approve(held)).status == "executed"
    assert (await run.result("lookup_account"))["credit_cents"] == 5_500


async def test_a_reply_reaches_the_customer_as_a_person_agreed_to_it(desk: Desk) -> None:
    order = await desk.service.outside.order()
    run = await run_of(desk, order)
    ticket_id = await desk.service.outside.ticket(order["customer_id"])
    words = "A new lamp is on its way.\nYour shop"
    parked = await run.call("create_ticket_reply_draft", ticket_id=ticket_id, body=words)
    approval = await desk.service.approval(parked)
    assert (approval.approvers, approval.untrusted) == ("support", {"body": words})
    assert await desk.service.outside.words_on(ticket_id) == []
    drafted = await run.approve(parked)
    assert drafted.status == "executed"
    assert await desk.service.outside.words_on(ticket_id) == [(words, False)]
    draft_id = (drafted.details.result or {})["draft_id"]
    posted = await run.result("post_approved_ticket_reply", draft_id=draft_id)
    assert posted["ticket_id"] == ticket_id
    assert await desk.service.outside.words_on(ticket_id) == [(words, False), (words, True)]
    again = await run.call("post_approved_ticket_reply", draft_id=draft_id)
    assert (again.code, again.rule) == ("TOOL_NOT_AVAILABLE", "phase")
    other = await run_of(desk, order, tenant=parked.tenant)
    await other.approve(await other.call("create_ticket_reply_draft", ticket_id=ticket_id, body="And a lamp shade."))
    again = await other.call("post_approved_ticket_reply", draft_id=draft_id)
    assert (again.code, again.rule) == ("INVALID_STATE", "posted")


async def test_no_words_are_kept_on_a_ticket_of_somebody_else(desk: Desk) -> None:
    order = await desk.service.outside.order()
    run = await run_of(desk, order)
    ticket_id = await desk.service.outside.ticket("cus_somebody")
    refused = await run.call("create_ticket_reply_draft", ticket_id=ticket_id, body="Hello")
    unknown = await run.call("create_ticket_reply_draft", ticket_id="1", body="Hello")
    assert refused.code == unknown.code == "INVALID_INPUT"
    assert await desk.service.outside.words_on(ticket_id) == []


async def test_parcels_and_articles_come_with_the_words_of_others_apart(desk: Desk) -> None:
    order = await desk.service.outside.order(status="shipped", tracking_ids=[f"T{secrets.token_hex(5)}"])
    run = await run_of(desk, order)
    parcels = await run.result("lookup_shipment", order_id=order["order_id"])
    assert (parcels["count"], parcels["shipments"][0]["state"]) == (1, "in_transit")
    articles = await run.result("search_help_articles", query="refund", limit=2)
    assert articles["count"] >= 1
    assert articles["untrusted"]["source"] == "help_center"
    assert (await run.call("search_help_articles", query="xylophone")).code == "NO_RESULTS"


class Nowhere:
    """A helpdesk that there is none of."""

    def __getattr__(self, name: str) -> Any:
        raise SystemUnavailable("helpdesk", "not_configured")


async def test_without_a_helpdesk_its_tools_are_refused(desk: Desk, wired: Service) -> None:
    order = await desk.service.outside.order()
    none: Any = Nowhere()
    without = Desk(wired.elsewhere(systems=replace(systems_of(wired.services), helpdesk=none)))
    record = await (await run_of(without, order)).call("search_help_articles", query="refund")
    assert (record.status, record.code) == ("failed", "INTERNAL_FAILURE")
