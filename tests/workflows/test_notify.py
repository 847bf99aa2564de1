"""Notices on their way: sent until they are taken, under one id, however long who takes them is away."""

import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ledger.notices import Notice
from notices.file import NoticesFile
from runtime.notices import Courier, open_telling
from runtime.workers import effect_worker, workflow_sandbox, workflow_worker
from schemas.decisions import Approval
from schemas.notices import NoticeState
from tests.notices.receivers import SECRET, Receiver, receiving
from tests.service import Service, refund_arguments, until, working

pytestmark = pytest.mark.asyncio(loop_scope="session")

PUBLIC = "https://approvals.example.com"


@dataclass(frozen=True)
class Desk:
    """The service with its workers and a courier, telling one tenant's people over a few receivers."""

    service: Service
    courier: Courier
    tenant: str

    async def refund(self, amount: int) -> Approval | None:
        """A refund of an order of 500.00; its approval when it waits for a person."""
        order = await self.service.outside.order(50_000)
        run = await self.service.open_run(order["customer_id"], tenant=self.tenant)
        started = await self.service.start(*await self.service.input_for(run.run_id, refund_arguments(order, amount)))
        record = await self.service.rest(started)
        return await self.service.approval(record) if record.approval_id else None

    async def parked(self) -> Approval:
        approval = await self.refund(25_000)
        assert approval is not None
        return approval

    async def work(self) -> None:
        """One round of the courier."""
        await self.courier.route()
        await self.courier.start()

    async def notices(self, state: NoticeState, number: int = 1) -> Sequence[Notice]:
        """Those of the tenant that have come to this, once there are so many."""

        async def enough() -> Sequence[Notice] | None:
            found = await self.service.core.ledger.notices.recent(tenant=self.tenant, state=state, limit=100)
            return found if len(found) >= number else None

        return await until(enough)


def file(tenant: str, routes: dict[str, list[str]], receivers: dict[str, Receiver], **more: Any) -> NoticesFile:
    content: dict[str, Any] = more | {
        "channels": {
            name: {"kind": "webhook", "url": each.url, "secret": "env:SECRET", "private": True}
            for name, each in receivers.items()
        },
        "routes": tuple({"tell": [topic], "tenants": [tenant], "over": tuple(over)} for topic, over in routes.items()),
    }
    return NoticesFile.model_validate(content, strict=False)


@asynccontextmanager
async def desk(
    wired: Service, routes: dict[str, list[str]], patience: timedelta = timedelta(days=1), **receivers: Receiver
) -> AsyncGenerator[Desk]:
    tenant = f"t{secrets.token_hex(6)}"
    content, core = file(tenant, routes, receivers), wired.core
    async with open_telling(content, core.ledger.credentials, PUBLIC + "/", environment={"SECRET": SECRET}) as telling:
        service = wired.elsewhere(task_queue=f"tests-{secrets.token_hex(4)}", telling=telling)
        queue = service.services.task_queue
        courier = Courier(core.ledger, core.temporal, content, queue, keep_days=30, patience=patience)
        async with working(service), effect_worker(service.temporal, service.services, "messages"):
            yield Desk(service, courier, tenant)


async def test_who_decides_is_told_though_the_receiver_fails_at_first(wired: Service) -> None:
    async with receiving() as chat, desk(wired, {"approval_requested": ["chat"]}, chat=chat) as office:
        chat.statuses, chat.headers = [500, 429, 503], "Retry-After: 1\r\n"
        approval = await office.parked()
        await office.work()
        (notice,) = await office.notices("delivered")
        assert (notice.attempts, notice.problem) == (4, None)
        requests = await chat.arrived(4)
        assert {each.notice_id for each in requests} == {notice.notice_id}
        said = requests[-1].verified()
        assert said["type"] == "approval.requested"
        assert said["data"]["headline"] == "Approval wanted: Issue a refund, 250.00 USD"
        assert said["data"]["link"] == f"{PUBLIC}/approvals/{approval.approval_id}"
        arguments = approval.arguments
        assert str(arguments["order_id"]) not in chat.requests[-1].body.decode(), "it says what the page is about only"
        await office.work()
        assert len(chat.requests) == 4


async def test_what_a_channel_refuses_alerts_the_others_and_can_be_tried_again(wired: Service) -> None:
    routes = {"approval_requested": ["chat"], "alert": ["chat", "operators"]}
    async with (
        receiving() as chat,
        receiving() as operators,
        desk(wired, routes, chat=chat, operators=operators) as office,
    ):
        chat.statuses = [410]
        await office.parked()
        await office.work()
        (lost,) = await office.notices("undelivered")
        assert (lost.attempts, lost.problem) == (1, "refused")
        (alert,) = await office.service.core.ledger.of(office.tenant).alerts.open(office.tenant, 10)
        assert (alert.kind, alert.channel) == ("notice_undelivered", "chat")
        await office.work()
        (told,) = await operators.arrived()
        assert told.verified()["data"] | {"notice_id": ""} == {
            "notice_id": "",
            "headline": "Alert: People could not be told",
            "link": f"{PUBLIC}/operations",
            "tenant": office.tenant,
            "alert": "notice_undelivered",
            "channel": "chat",
        }
        assert await office.service.core.ledger.of(office.tenant).notices.retry(lost.notice_id, office.tenant)
        await office.work()
        delivered = await office.notices("delivered", 2)
        assert lost.notice_id in {each.notice_id for each in delivered}
        assert [each.notice_id for each in await chat.arrived(2)] == [lost.notice_id] * 2


async def test_a_channel_that_stays_away_is_given_up_on(wired: Service) -> None:
    async with receiving() as gone:
        pass
    patience = timedelta(seconds=2)
    async with desk(wired, {"approval_requested": ["chat"]}, patience, chat=gone) as office:
        await office.parked()
        await office.work()
        (lost,) = await office.notices("undelivered")
        assert lost.problem == "connect_failed"
        assert len(await office.service.core.ledger.of(office.tenant).alerts.open(office.tenant, 10)) == 1


class _Away:
    """Stands where Temporal's client does while its server is away."""

    async def start_workflow(self, *arguments: object, **options: object) -> None:
        raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")


async def test_what_was_written_while_temporal_was_away_is_told_later(wired: Service) -> None:
    async with receiving() as chat, desk(wired, {"approval_requested": ["chat"]}, chat=chat) as office:
        await office.parked()
        core, content = office.service.core, file(office.tenant, {"approval_requested": ["chat"]}, {"chat": chat})
        away = Courier(core.ledger, cast("Client", _Away()), content, office.service.services.task_queue, keep_days=30)
        await away.route()
        with pytest.raises(RPCError):
            await away.start()
        assert chat.requests == []
        await office.work()
        (notice,) = await office.notices("delivered")
        assert [each.notice_id for each in chat.requests] == [notice.notice_id]


async def test_one_that_temporal_lost_is_started_again(wired: Service) -> None:
    async with receiving() as chat, desk(wired, {"approval_requested": ["chat"]}, chat=chat) as office:
        chat.statuses = [503]
        await office.parked()
        await office.work()
        (request,) = await chat.arrived()
        await office.service.temporal.get_workflow_handle(f"notice/{request.notice_id}").terminate("lost")
        assert await office.courier.start() == 0, "it was taken up a moment ago"
        assert await office.courier.start(lost_after_seconds=0) >= 1
        (notice,) = await office.notices("delivered")
        assert notice.notice_id == request.notice_id


async def test_it_is_not_asked_for_what_somebody_decided_meanwhile(wired: Service) -> None:
    async with receiving() as chat, desk(wired, {"approval_requested": ["chat"]}, chat=chat) as office:
        approval = await office.parked()
        await office.courier.route()
        await office.service.core.ledger.approvals.withdraw(approval.request_id, "support-bot")
        await office.work()
        (notice,) = await office.notices("moot")
        assert (notice.attempts, chat.requests) == (0, [])


async def test_a_call_that_ran_unasked_is_told(wired: Service) -> None:
    async with receiving() as chat, desk(wired, {"notice": ["chat"]}, chat=chat) as office:
        assert await office.refund(4_999) is None
        await office.work()
        await office.notices("delivered")
        said = chat.requests[0].verified()
        assert (said["type"], said["data"]["headline"]) == ("call.executed", "Done: Issue a refund, 49.99 USD")
        assert said["data"]["link"] is None


async def test_a_digest_is_told_once_a_day(wired: Service) -> None:
    async with receiving() as chat, desk(wired, {}, chat=chat) as office:
        await office.parked()
        core, queue = office.service.core, office.service.services.task_queue
        content = file(office.tenant, {"digest": ["chat"]}, {"chat": chat}, digest={"hour": 9, "zone": "UTC"})
        today = datetime.now(UTC)
        for _ in range(2):  # as two processes, or one that was started again
            courier = Courier(core.ledger, core.temporal, content, queue, keep_days=30)
            await courier.add_digests(today.replace(hour=8))
            await courier.add_digests(today.replace(hour=9))
            await courier.add_digests(today.replace(hour=23))
            await courier.start()
        (notice,) = await office.notices("delivered")
        (digest,) = chat.requests
        assert (digest.notice_id, digest.verified()["data"]["waiting"]) == (notice.notice_id, 1)


async def test_without_a_worker_for_messages_it_waits_for_one(wired: Service) -> None:
    async with receiving() as chat, desk(wired, {"approval_requested": ["chat"]}, chat=chat) as office:
        elsewhere = office.service.elsewhere(task_queue=f"tests-{secrets.token_hex(4)}")
        core, content = elsewhere.core, file(office.tenant, {"approval_requested": ["chat"]}, {"chat": chat})
        courier = Courier(core.ledger, core.temporal, content, elsewhere.services.task_queue, keep_days=30)
        async with workflow_worker(elsewhere.temporal, elsewhere.services, runner=workflow_sandbox()):
            await office.parked()
            await courier.route()
            await courier.start()
            assert chat.requests == []
            async with effect_worker(elsewhere.temporal, elsewhere.services, "messages"):
                await office.notices("delivered")
