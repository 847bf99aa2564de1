"""Sequences of calls, answers and accidents that are known to have broken payment systems, over a running service."""

import asyncio
import secrets
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from activities.patience import Patience
from activities.services import Services
from gateways.protocols import PaymentGateway, RefundRequest, Systems
from ledger.approvals import Verdict
from ledger.records import CallRecord
from runtime.assembly import activity_services
from runtime.healing import Healer
from schemas.codes import Code
from schemas.decisions import Approval
from schemas.effects import Attempt, Inspection
from schemas.facts import Payment, Refund
from tests.activities.desk import Desk
from tests.loopback import plain_client
from tests.service import Service, Started, refund_arguments, until, working

pytestmark = pytest.mark.asyncio(loop_scope="session")


@dataclass
class Writes:
    """A payment gateway that is read as it is, and whose refunds go to each of `through` in turn, then to the last."""

    reads: PaymentGateway
    through: list[PaymentGateway]
    requests: list[RefundRequest] = field(default_factory=list[RefundRequest])
    name: str = "writes"
    key_validity: timedelta = timedelta(hours=24)

    async def payment(self, payment_id: str) -> Payment | None:
        return await self.reads.payment(payment_id)

    async def refunds(self, payment_id: str) -> Sequence[Refund]:
        return await self.reads.refunds(payment_id)

    async def refunds_between(self, since: datetime, until: datetime) -> Sequence[Refund] | None:
        return await self.reads.refunds_between(since, until)

    async def find_refund(self, request: RefundRequest) -> Inspection:
        return await self.reads.find_refund(request)

    async def refund(self, request: RefundRequest) -> Attempt:
        self.requests.append(request)
        way = self.through.pop(0) if len(self.through) > 1 else self.through[0]
        return await way.refund(request)


def _of(services: Services) -> Systems:
    """The remote systems that they have the credentials of."""

    def held(systems: Systems | None) -> Systems:
        assert systems is not None
        return systems

    return held(services.systems)


@asynccontextmanager
async def _through(service: Service, *ways: dict[str, Any]) -> AsyncGenerator[tuple[Service, Writes]]:
    """The service, with workers, whose refunds go through gateways of these settings, one after the other.

    What is not listed is absent at once.
    """
    systems = _of(service.services)
    async with AsyncExitStack() as stack:
        through: list[PaymentGateway] = []
        for changes in ways:
            core = replace(service.core, settings=service.core.settings.model_copy(update=changes))
            wired = await stack.enter_async_context(activity_services(core, inline=True))
            through.append(_of(wired).payments)
        writes = Writes(systems.payments, through)
        elsewhere = service.elsewhere(
            systems=Systems(payments=writes, orders=systems.orders, helpdesk=systems.helpdesk),
            task_queue=f"tests-{secrets.token_hex(4)}",
            patience=Patience(absence=timedelta(0)),
        )
        yield await stack.enter_async_context(working(elsewhere)), writes


async def _more(service: Service, first: Started, order: dict[str, Any], amount: int) -> Started:
    """Another refund in the run of the first, under a key of its own."""
    return await service.start(*await service.input_for(first.request.run_id, refund_arguments(order, amount)))


async def _approve(service: Service, started: Started) -> CallRecord:
    approval = await service.approval(await service.rest(started))
    await started.handle.signal("decide", service.decision(approval, "approve"))
    return await service.finish(started)


async def test_of_two_refunds_of_6000_of_10000_at_once_one_is_paid(wired: Service) -> None:
    desk = Desk(wired)

    async def both() -> None:
        order, tenant = await wired.outside.order(), f"t{secrets.token_hex(6)}"
        runs = [await wired.open_run(order["customer_id"], tenant=tenant) for _ in range(2)]
        asked = [await wired.input_for(run.run_id, refund_arguments(order, 6_000)) for run in runs]
        await asyncio.gather(*(desk.admit(*each) for each in asked))
        records = [await desk.record(request.request_id) for request, _ in asked]
        assert sorted(record.code for record in records) == [Code.OK, Code.REFUND_EXCEEDS_PAID]
        assert [each["amount"] for each in await wired.outside.effects(order)] == [6_000]

    for _ in range(10):
        await asyncio.gather(*(both() for _ in range(5)))


@pytest.mark.parametrize("admitted_before", [False, True])
async def test_a_refund_that_is_on_its_way_is_not_counted_twice_against_another(
    wired: Service, admitted_before: bool
) -> None:
    """The gateway has made it already, and here it is still held."""
    desk, split = Desk(wired), Desk(wired.elsewhere(inline=False))
    order = await wired.outside.order()
    run = await wired.open_run(order["customer_id"])
    large, small = [await wired.input_for(run.run_id, refund_arguments(order, cents)) for cents in (6_000, 4_000)]
    if admitted_before:
        assert (await split.admit(*small)).next == "execute"
    await wired.outside.fault("delay:1", order)
    sending = asyncio.create_task(desk.admit(*large))

    async def made() -> bool | None:
        return bool(await wired.outside.effects(order)) or None

    await until(made)
    ended = await (split.execute(small[0].request_id) if admitted_before else desk.admit(*small))
    assert not sending.done()
    assert ended.code is Code.OK
    assert (await sending).code is Code.OK


async def _approve_now(desk: Desk, approval: Approval) -> bool:
    """Approve as the approval surface does: committed first, then delivered. Whether it counted."""
    token = desk.token(approval)
    approvals = desk.service.core.ledger.of(approval.tenant).approvals
    verdict, _ = await approvals.decide(desk.service.services.verifier.verify(token), token)
    # Whoever can signal the workflow can deliver it whether or not it counted.
    await desk.execute(approval.request_id, approval, token)
    return verdict is Verdict.RECORDED


async def _cancel_now(desk: Desk, approval: Approval) -> bool:
    """Withdraw as the agent's API does. Whether it counted."""
    approvals = desk.service.core.ledger.of(approval.tenant).approvals
    _, withdrawn = await approvals.withdraw(approval.request_id, "support-bot")
    return withdrawn


async def _refund_requests(service: Service) -> int:
    async with plain_client() as client:
        found = (await client.get(f"{service.outside.urls.gateway}/_requests")).json()["requests"]
    return sum(each["operation"] == "refund" for each in found)


async def test_approved_and_cancelled_at_the_same_instant_has_one_winner(wired: Service) -> None:
    desk = Desk(wired)

    async def race(*, cancel_first: bool) -> bool:
        order = await wired.outside.order(50_000)
        approval = await desk.parked(order)
        if cancel_first:
            cancelled, approved = await asyncio.gather(_cancel_now(desk, approval), _approve_now(desk, approval))
        else:
            approved, cancelled = await asyncio.gather(_approve_now(desk, approval), _cancel_now(desk, approval))
        assert approved is not cancelled
        record = await desk.record(approval.request_id)
        assert record.status == ("executed" if approved else "cancelled")
        # Of one that was cancelled not even the key exists that it could have been sent with.
        assert (record.details.effect is None) is cancelled
        assert len(await wired.outside.effects(order)) == approved
        return approved

    before = await _refund_requests(wired)
    approvals = 0
    for _ in range(10):
        approvals += sum(await asyncio.gather(*(race(cancel_first=bool(n % 2)) for n in range(10))))
    assert 0 < approvals < 100
    assert await _refund_requests(wired) - before == approvals


async def test_a_first_send_that_hangs_and_is_in_use_twice_is_executed_in_the_end(running: Service) -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    silent = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    first = {"sandbox_gateway_url": silent, "exchange_seconds": 0.3}
    async with server, _through(running, first, {}) as (service, writes):
        order = await service.outside.order()
        await service.outside.fault("in_use", order, times=2)
        started = await service.refund(order, 4_000)
        record = await service.finish(started)
        types = await service.event_types(started)
    assert record.code is Code.OK
    # Each repeat is an intent of its own; the answers of the first three said nothing.
    assert (types.count("effect.intended"), types.count("effect.unknown")) == (4, 3)
    (effect,) = await running.outside.effects(order)
    assert {request.idempotency_key for request in writes.requests} == {effect["idempotency_key"]}
    assert len(writes.requests) == 4


async def test_two_partials_of_the_same_amount_are_two_refunds_once_a_person_said_so(running: Service) -> None:
    order = await running.outside.order()
    first = await running.refund(order, 500)
    records = [await running.finish(first)]
    second = await _more(running, first, order, 500)
    held = await running.rest(second)
    assert held.details.decision is not None
    assert (held.status, held.details.decision.rule) == ("pending_approval", "likely_duplicate")
    assert len(await running.outside.effects(order)) == 1
    records.append(await _approve(running, second))
    assert [record.code for record in records] == [Code.OK, Code.OK]
    effects = await running.outside.effects(order)
    assert [effect["amount"] for effect in effects] == [500, 500]
    for name in ("idempotency_key", "operation_id", "refund_id"):
        assert len({effect[name] for effect in effects}) == 2, name
    assert {record.remote_id for record in records} == {effect["refund_id"] for effect in effects}


async def test_thirds_leave_what_does_not_divide_and_the_rest_is_named(running: Service) -> None:
    order = await running.outside.order()
    first = await running.refund(order, 3_333)
    assert (await running.finish(first)).code is Code.OK
    for _ in range(2):
        again = await _more(running, first, order, 3_333)
        assert (await _approve(running, again)).code is Code.OK
    refused = await running.finish(await _more(running, first, order, 100))
    reply = refused.reply()
    assert (reply.code, reply.allowed) == (Code.REFUND_EXCEEDS_PAID, {"max_amount_cents": 1})
    assert [each["amount"] for each in await running.outside.effects(order)] == [3_333] * 3


async def test_what_was_refunded_in_the_dashboard_is_not_there_any_more(running: Service) -> None:
    order = await running.outside.order()
    await running.outside.refund_in_dashboard(order, 4_000)
    first = await running.refund(order, 8_000)
    reply = (await running.finish(first)).reply()
    assert (reply.code, reply.allowed) == (Code.REFUND_EXCEEDS_PAID, {"max_amount_cents": 6_000})
    assert await running.outside.effects(order) == []
    assert (await running.finish(await _more(running, first, order, 6_000))).code is Code.OK


async def test_a_refused_credential_ends_the_call_after_one_request(running: Service) -> None:
    """The key is good for the facts, and no more for the refund."""
    async with _through(running, {"sandbox_gateway_key": SecretStr("another key")}) as (service, writes):
        started = await service.refund(await service.outside.order(), 4_000)
        record = await service.finish(started)
        assert (record.status, record.code) == ("failed", Code.AUTH_FAILED)
        assert record.reply().retryable is False
        assert len(writes.requests) == await service.outside.sends(record) == 1
        assert "effect.failed" in await service.event_types(started)


def _nobody_listens(monkeypatch: pytest.MonkeyPatch) -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def _nobody_knows_the_name(monkeypatch: pytest.MonkeyPatch) -> str:
    resolve = socket.getaddrinfo

    def only_others(host: Any, *arguments: Any, **more: Any) -> Any:
        if host in ("gateway.invalid", b"gateway.invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", only_others)
    return "http://gateway.invalid"


@pytest.mark.parametrize("nowhere", [_nobody_listens, _nobody_knows_the_name])
async def test_what_never_left_failed_at_once_and_holds_nothing(
    running: Service, monkeypatch: pytest.MonkeyPatch, nowhere: Any
) -> None:
    async with _through(running, {"sandbox_gateway_url": nowhere(monkeypatch)}, {}) as (service, writes):
        order = await service.outside.order()
        first = await service.refund(order, 10_000)
        record = await service.finish(first)
        assert (record.status, record.code) == ("failed", Code.NETWORK_UNREACHABLE)
        assert await service.event_types(first) == [
            *("call.proposed", "call.decided", "effect.intended", "effect.failed", "call.settled")
        ]
        assert len(writes.requests) == 1
        assert await service.outside.sends(record) == 0
        # What it held is free for the next call.
        again = await service.finish(await _more(service, first, order, 10_000))
        assert again.code is Code.OK


async def _pass_until_the_next_look(service: Service, record: CallRecord, days: int) -> None:
    """The day comes on which the effect is looked at again."""
    assert record.recheck_at is not None
    assert record.details.effect is not None
    assert record.recheck_at - record.details.effect.last_sent_at == timedelta(days=days)
    await service.core.ledger.system.execute(
        "UPDATE calls SET recheck_at = now() - interval '1 second' WHERE request_id = $1", record.request_id
    )
    core = service.core
    assert (
        await Healer(
            core.ledger, core.temporal, core.catalog, service.services.task_queue, public_url="http://counterseal.test"
        ).recheck()
        == 1
    )


async def test_a_refund_that_fails_days_later_is_undone_said_aloud_and_can_be_made_again(running: Service) -> None:
    order = await running.outside.order()
    first = await running.refund(order, 10_000)
    record = await running.finish(first)
    assert record.details.result is not None
    assert record.details.result["status"] == "succeeded"
    # The first day's look finds it as it was.
    await _pass_until_the_next_look(running, record, days=1)

    async def looked() -> CallRecord | None:
        found = await running.record(first)
        return found if found.recheck_at is None or found.recheck_at > found.updated_at else None

    record = await until(looked)
    assert (record.status, await running.core.ledger.alerts.of(record.request_id)) == ("executed", [])

    async with plain_client() as client:
        url = f"{running.outside.urls.gateway}/_refunds/{record.remote_id}"
        (await client.post(url, json={"status": "failed"})).raise_for_status()
    await _pass_until_the_next_look(running, record, days=1)

    async def failed() -> CallRecord | None:
        found = await running.record(first)
        return found if found.status == "failed" else None

    record = await until(failed)
    assert record.code is Code.REMOTE_REFUSED
    assert (await running.event_types(first))[-2:] == ["effect.reversed", "call.settled"]
    assert await running.core.ledger.alerts.of(record.request_id) == ["effect_reversed"]
    again = await running.finish(await _more(running, first, order, 10_000))
    assert again.code is Code.OK
    assert again.remote_id != record.remote_id
