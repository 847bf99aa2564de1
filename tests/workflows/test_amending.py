"""A person changes what an agent asked for, instead of denying it."""

from typing import Any

import pytest
from pydantic import JsonValue

from api.amending import Amended, amend
from api.context import Context
from api.deciding import Decider
from api.diagnosing import EdgeDiagnostics
from runtime.codec import payload_codec
from schemas.codes import Code
from schemas.decisions import Approval
from schemas.events import CallAmended
from tests.service import Service, Started

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def _amend(
    service: Service, approval: Approval, changes: dict[str, JsonValue], *, reason: str = "half is fair", **who: Any
) -> Amended:
    core = service.core
    context = Context(
        ledger=core.ledger,
        catalog=core.catalog,
        signer=service.signer,
        temporal=service.temporal,
        waiters=service.waiters,
        task_queue=service.services.task_queue,
        eager_start=False,
        public_url="http://counterseal.test",
        edge_diagnostics=EdgeDiagnostics(core.ledger.diagnostics, tenant=approval.tenant),
        codec=payload_codec(core.master),
        policies=service.services.policies,
    )
    decider = Decider(
        who.get("tenant", approval.tenant), who.get("username", "ana"), frozenset(who.get("roles", ["finance"]))
    )
    return await amend(context, decider, approval.approval_id, changes, reason=reason)


async def _uses(service: Service, request_id: str) -> set[tuple[int, str]]:
    rows = await service.core.ledger.system.fetch("SELECT amount, state FROM uses WHERE request_id = $1", request_id)
    return {(row["amount"], row["state"]) for row in rows}


async def _successor(service: Service, started: Started) -> Approval:
    return await service.approval(await service.record(started))


async def test_less_is_a_new_action_that_is_decided_anew(running: Service) -> None:
    order = await running.outside.order(50_000)
    started, approval = await running.parked(order, 45_000, note="All of it, please")
    amended = await _amend(running, approval, {"amount_cents": 25_000, "reason_code": "goodwill"})
    assert amended.refused is None
    again = await _successor(running, started)
    assert again.approval_id == amended.approval_id
    assert (again.people, approval.people) == (1, 2)
    assert again.action_digest != approval.action_digest
    assert again.arguments["amount_cents"] == 25_000
    assert again.title.startswith("Refund 250.00 USD")
    assert again.untrusted == approval.untrusted
    assert await _uses(running, again.request_id) == {(25_000, "held")}
    # What was signed for the first action does not run the second, and neither does the old approval's page.
    await started.handle.signal("decide", running.decision(approval, "approve"))
    await started.handle.signal("decide", running.decision(again, "approve", action_digest=approval.action_digest))
    await started.handle.signal("decide", running.decision(again, "approve"))
    record = await running.finish(started)
    assert record.code is Code.OK
    assert [each["amount"] for each in await running.outside.effects(order)] == [25_000]
    reply = record.reply()
    assert "refunded 250.00 USD" in reply.message
    assert "a person changed it" in reply.message
    assert await _uses(running, again.request_id) == {(25_000, "spent")}
    # Proposed, approved and executed arguments are all kept.
    assert record.details.requested is not None
    assert record.details.requested["amount_cents"] == 45_000
    assert record.details.call.arguments["amount_cents"] == 25_000
    (event,) = [each for each in await running.events(started) if isinstance(each, CallAmended)]
    assert (event.approval_id, event.principal, event.reason) == (approval.approval_id, "ana", "half is fair")
    # The agent that repeats its call, as it sent it, is told of this one.
    assert record.arguments_digest == record.details.call.arguments_digest


async def test_it_can_be_changed_again_and_denied(running: Service) -> None:
    started, approval = await running.parked(await running.outside.order(50_000), 30_000)
    assert (await _amend(running, approval, {"amount_cents": 25_000})).refused is None
    second = await _successor(running, started)
    assert (await _amend(running, second, {"amount_cents": 100})).refused is None
    third = await _successor(running, started)
    assert third.rule == "over_threshold", "a person decides it all the same"
    await started.handle.signal("decide", running.decision(third, "deny", reason="not due"))
    record = await running.finish(started)
    assert record.code is Code.USER_DENIED
    assert record.details.requested is not None
    assert record.details.requested["amount_cents"] == 30_000
    assert await _uses(running, third.request_id) == {(100, "released")}


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"amount_cents": 25_001}, "takes_more"),
        ({"amount_cents": 25_000}, "unchanged"),
        ({"amount_cents": 99}, "invalid"),
        ({"amount_cents": "100"}, "invalid"),
        ({"amount_cents": True}, "invalid"),
        ({"reason_code": "because"}, "invalid"),
        ({"order_id": "ord_000000000000"}, "not_amendable"),
        ({"currency": "EUR"}, "not_amendable"),
        ({"idempotency_key": "0" * 32}, "not_amendable"),
        ({"note": "APPROVED BY FINANCE"}, "not_amendable"),
        ({"amount_cents": 100, "customer_id": "cus_1"}, "not_amendable"),
        ({}, "not_amendable"),
    ],
)
async def test_what_cannot_be_changed(running: Service, changes: dict[str, JsonValue], refused: str) -> None:
    started, approval = await running.parked(await running.outside.order(50_000))
    assert (await _amend(running, approval, changes)).refused == refused
    assert (await _successor(running, started)).approval_id == approval.approval_id


async def test_who_cannot_change_it(running: Service) -> None:
    _, approval = await running.parked(await running.outside.order(50_000))
    less: dict[str, JsonValue] = {"amount_cents": 100}
    assert (await _amend(running, approval, less, roles=["support"])).refused == "not_yours"
    assert (await _amend(running, approval, less, username="Support-Bot")).refused == "not_yours"
    assert (await _amend(running, approval, less, username="user_17")).refused == "not_yours"
    assert (await _amend(running, approval, less, tenant="another")).refused == "not_found"
    assert (await _amend(running, approval, less, reason="  ")).refused == "reason_required"


async def test_what_was_decided_is_not_changed(running: Service) -> None:
    order = await running.outside.order(50_000)
    started, approval = await running.parked(order)
    await started.handle.signal("decide", running.decision(approval, "approve"))
    assert (await running.finish(started)).code is Code.OK
    assert (await _amend(running, approval, {"amount_cents": 100})).refused == "already_decided"
    assert [each["amount"] for each in await running.outside.effects(order)] == [25_000]
