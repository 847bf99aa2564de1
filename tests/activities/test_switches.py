"""Kill switches, over a real ledger and the sandbox: what each stops, and that nothing begins once it is off."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.closing import Closing
from activities.patience import Patience
from activities.previewing import Previewing
from api.reach import reaches
from gateways.accounts import Course
from gateways.protocols import PaymentGateway, RefundRequest
from ledger.database import connect
from ledger.ledger import Ledger
from ledger.principals import OpenedRun, Principal
from runtime.assembly import activity_services, core
from schemas.calls import CallRef, PreviewInput, Progress
from schemas.codes import Code
from schemas.effects import Attempt
from schemas.ids import new_request_id
from schemas.switches import EVERYONE, PERMIT
from tests.activities.desk import Desk
from tests.loopback import plain_client
from tests.service import Service, address_of, refund_arguments, systems_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

OFF = Code.CAPABILITY_DISABLED
_call: ContextVar[str] = ContextVar("call", default="")
"""Which call is played in this context."""
_writing: ContextVar[str] = ContextVar("writing", default="")
"""The same, once its refund is about to be sent."""
FIRST_BYTE = "http11.send_request_headers.started"


class Late:
    """The payment gateway, of whose refunds each is held up once, right before it is sent."""

    def __init__(self, real: PaymentGateway, hold: Callable[[], Awaitable[object]]) -> None:
        self._real = real
        self._hold = hold
        self._seen: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def refund(self, request: RefundRequest) -> Attempt:
        if request.operation_id not in self._seen:
            self._seen.add(request.operation_id)
            await self._hold()
        _writing.set(_call.get())
        return await self._real.refund(request)


def late(service: Service, hold: Callable[[], Awaitable[object]], **changes: Any) -> Desk:
    systems = systems_of(service.services)
    held: Any = Late(systems.payments, hold)
    return Desk(service.elsewhere(systems=replace(systems, payments=held), **changes))


async def turn_off(service: Service, tenant: str, name: str) -> None:
    await service.core.ledger.switches.turn_off(tenant, name, by="olga", reason="an example")


async def turn_on(service: Service, tenant: str, name: str) -> None:
    switches = service.core.ledger.switches
    assert await switches.turn_on(tenant, name, reaches(service.core.catalog), by="olga", reason="it is over")


@asynccontextmanager
async def off(service: Service, tenant: str, name: str) -> AsyncGenerator[None]:
    await turn_off(service, tenant, name)
    try:
        yield
    finally:
        await turn_on(service, tenant, name)


async def refund_requests(service: Service) -> int:
    """How many refunds were ever asked for at the gateway."""
    async with plain_client() as client:
        requests = (await client.get(f"{service.outside.urls.gateway}/_requests")).json()["requests"]
    return sum(each["method"] == "POST" for each in requests)


async def open_run(service: Service, customer_id: str, tenant: str, agent: str = "support-bot") -> OpenedRun:
    return await service.core.ledger.principals.open_run(
        Principal(kind="service", tenant=tenant, name="runtime"),
        agent_id=agent,
        actor_id="user_17",
        customer_id=customer_id,
        tools=("issue_refund", "lookup_orders"),
        seconds=3600,
    )


@dataclass
class Shop:
    """A tenant with one run whose calls wait at every place, and runs that only partly share its switches."""

    service: Service
    order: dict[str, Any]
    run: OpenedRun
    others: dict[str, tuple[str, dict[str, Any]]]
    """By what is another: run id and order."""
    tenant: str
    amounts: Iterator[int] = field(default_factory=lambda: iter(range(500, 5_000)))

    @classmethod
    async def open(cls, service: Service) -> "Shop":
        order = await service.outside.order(200_000)
        run = await service.open_run(order["customer_id"])
        state = await service.core.ledger.admissions.run(run.run_id, "")
        assert state is not None
        tenant = state.binding.tenant
        others: dict[str, tuple[str, dict[str, Any]]] = {}
        for name, whose, agent in (
            ("run", tenant, "support-bot"),
            ("agent", tenant, "another-bot"),
            ("tenant", f"{tenant}x", "support-bot"),
        ):
            theirs = await service.outside.order(200_000)
            others[name] = (await open_run(service, theirs["customer_id"], whose, agent)).run_id, theirs
        return cls(service, order, run, others, tenant)

    @property
    def desk(self) -> Desk:
        return Desk(self.service.elsewhere(patience=Patience(absence=timedelta(0), review=timedelta(hours=1))))

    async def refund(self, amount: int | None = None, *, inline: bool = True) -> Progress:
        arguments = refund_arguments(self.order, amount or next(self.amounts))
        desk = Desk(self.desk.service.elsewhere(inline=inline))
        return await desk.admit(*await self.service.input_for(self.run.run_id, arguments))

    async def other(self, name: str) -> Code:
        run_id, order = self.others[name]
        arguments = refund_arguments(order, next(self.amounts))
        return (await self.desk.admit(*await self.service.input_for(run_id, arguments))).code

    async def lookup(self) -> Code:
        asked = await self.service.input_for(self.run.run_id, {}, "lookup_orders")
        return (await self.desk.admit(*asked)).code

    async def preview(self, tool: str = "issue_refund") -> Code:
        arguments = refund_arguments(self.order, next(self.amounts)) if tool == "issue_refund" else {}
        asked = PreviewInput(
            run_id=self.run.run_id, tool=tool, request_id=new_request_id(), arguments=arguments, queue="payments"
        )
        reply = await ActivityEnvironment().run(Previewing(self.service.services).preview, asked)
        assert reply.dry_run
        return reply.code

    async def lost(self) -> Progress:
        """A refund that the gateway lost: it is absent, and is to be sent again."""
        await self.service.outside.fault("503", self.order)
        sent = await self.refund()
        assert sent.code is Code.OUTCOME_UNKNOWN
        return sent


# Of the runs that are not the one with the switch: which a switch of each kind stops as well. `tenant` is another
# tenant's, which is stopped only when the switch is everyone's.
STOPS = {
    "all": {"run", "agent", "tenant"},
    "tenant": {"run", "agent"},
    "tool": {"run", "agent", "tenant"},
    "class": {"run", "agent", "tenant"},
    "agent": {"run", "tenant"},
    "run": set[str](),
    "vault": {"run", "agent", "tenant"},
}
READS = {"all", "tenant", "agent", "run", "vault"}


def name_of(kind: str, shop: Shop) -> str:
    named = {
        "tenant": shop.tenant,
        "tool": "issue_refund",
        "class": "money_movement",
        "agent": "support-bot",
        "run": shop.run.run_id,
    }
    return f"{kind}:{named[kind]}" if kind in named else kind


@pytest.mark.parametrize("everyones", [False, True], ids=["of a tenant", "everyone's"])
@pytest.mark.parametrize("kind", STOPS)
async def test_each_stops_exactly_what_it_covers(
    wired: Service, kind: str, everyones: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How long the acknowledgement takes is a matter of other tests.
    monkeypatch.setattr("ledger.switches.PERMIT", timedelta(0))
    shop = await Shop.open(wired)
    desk, code = shop.desk, Code.VAULT_LOCKED if kind == "vault" else OFF
    lost, unsent = await shop.lost(), await shop.refund(inline=False)
    assert unsent.next == "execute"
    approval = await desk.service.approval(await desk.record((await shop.refund(25_000)).request_id))
    sent = await refund_requests(wired)
    stopped = STOPS[kind] - (set() if everyones else {"tenant"})
    async with off(wired, EVERYONE if everyones else shop.tenant, name_of(kind, shop)):
        fresh = await shop.refund()
        assert (fresh.code, fresh.status, fresh.next) == (code, "refused", "settled")
        assert await desk.types(fresh.request_id) == ["call.proposed", "call.decided", "call.settled"]
        assert (await desk.record(fresh.request_id)).reply().action == "stop_and_report"
        assert await shop.preview() is code
        assert await shop.lookup() is (code if kind in READS else Code.OK)
        assert await shop.preview("lookup_orders") is (code if kind in READS else Code.OK)
        void = await desk.approved(approval)
        assert (void.code, void.status) == (code, "refused")
        assert (await desk.types(void.request_id))[-3:] == ["approval.granted", "approval.voided", "call.settled"]
        decided = await desk.execute(unsent.request_id)
        assert (decided.code, decided.status) == (code, "refused")
        assert "effect.intended" not in await desk.types(decided.request_id)
        for _ in range(2):
            await desk.inspect(lost.request_id)
            assert (await desk.resend(lost.request_id)).next == "inspect"
        assert (await desk.record(lost.request_id)).review is None
        assert await refund_requests(wired) == sent, "nothing was sent"
        assert {name for name in shop.others if await shop.other(name) is code} == stopped
        assert await refund_requests(wired) == sent + 3 - len(stopped)
    assert await refund_requests(wired) == sent + 3 - len(stopped), "nothing waited to be sent"
    assert await shop.preview() is Code.OK
    assert (await shop.refund()).code is Code.OK
    assert (await desk.inspect(lost.request_id)).next == "resend"
    assert (await desk.resend(lost.request_id)).code is Code.OK
    assert await shop.lookup() is Code.OK
    for ended in (fresh, void, decided):
        assert (await desk.execute(ended.request_id)).code is code, "what was refused stays so"


@pytest.mark.parametrize("decided", [False, True], ids=["in one go", "decided before"])
async def test_what_is_turned_off_while_facts_are_read_is_seen_with_the_decision(
    wired: Service, decided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.switches.PERMIT", timedelta(0))
    order = await wired.outside.order()
    run = await wired.open_run(order["customer_id"])
    asked = await wired.input_for(run.run_id, refund_arguments(order, 4_000))
    progress = await Desk(wired.elsewhere(inline=False)).admit(*asked) if decided else None
    systems, switch = systems_of(wired.services), f"run:{run.run_id}"

    class Meanwhile:
        async def payment(self, payment_id: str) -> Any:
            await turn_off(wired, EVERYONE, switch)
            return await systems.payments.payment(payment_id)

        def __getattr__(self, name: str) -> Any:
            return getattr(systems.payments, name)

    desk = Desk(wired.elsewhere(systems=replace(systems, payments=Meanwhile())))
    try:
        ended = await (desk.execute(progress.request_id) if progress else desk.admit(*asked))
    finally:
        await turn_on(wired, EVERYONE, switch)
    assert (ended.code, ended.status) == (OFF, "refused")
    assert "effect.intended" not in await desk.types(ended.request_id)
    assert await wired.outside.effects(order) == []


async def test_a_call_that_was_stopped_takes_nothing(wired: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.switches.PERMIT", timedelta(0))
    order = await wired.outside.order()
    desk = Desk(wired.elsewhere(inline=False))
    decided = await desk.refund(order, 4_000)
    record = await desk.record(decided.request_id)
    async with off(wired, record.tenant, "tool:issue_refund"):
        assert (await desk.execute(decided.request_id)).code is OFF
    run = await wired.open_run(order["customer_id"], tenant=record.tenant)
    rest = await Desk(wired).admit(*await wired.input_for(run.run_id, refund_arguments(order, 10_000)))
    assert rest.code is not Code.REFUND_EXCEEDS_PAID


class Watch:
    """When each call's refund began to be written to the network, by this process's clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began: dict[str, list[float]] = {}
        self.intended: dict[str, asyncio.Event] = {}
        follow = Course.__call__

        async def watched(course: Course, event: str, info: Any) -> None:
            await follow(course, event, info)
            request_id = _writing.get()
            if event == FIRST_BYTE and request_id:
                self.began.setdefault(request_id, []).append(time.monotonic())

        monkeypatch.setattr(Course, "__call__", watched)

    def reached(self, point: str) -> None:
        if point == "intent.after":
            self.intended[_call.get()].set()


async def _ready(desk: Desk, number: int) -> tuple[str, str, Callable[[], Awaitable[Progress]]]:
    """A decided call: (request id, tenant, what executes it). Every other one was approved by a person."""
    order = await desk.service.outside.order(50_000)
    if number % 2:
        approval = await desk.parked(order)
        return approval.request_id, approval.tenant, lambda: desk.approved(approval)
    progress = await desk.refund(order, 4_000)
    assert progress.next == "execute"
    tenant = (await desk.record(progress.request_id)).tenant
    return progress.request_id, tenant, lambda: desk.execute(progress.request_id)


@pytest.mark.parametrize("seed", range(4))
async def test_nothing_begins_after_the_acknowledgement(
    wired: Service, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """25 calls a round, each with a switch of its own, turned from another process's connections at a random time."""
    chance, watch = random.Random(seed), Watch(monkeypatch)
    systems = systems_of(wired.services)
    held: Any = Late(systems.payments, lambda: asyncio.sleep(chance.uniform(0, 2.2)))
    desk = Desk(
        wired.elsewhere(systems=replace(systems, payments=held), inline=False, reached=watch.reached),
    )
    ready = await asyncio.gather(*(_ready(desk, number) for number in range(25)))
    database = await connect(wired.core.settings.database_url.get_secret_value(), maximum=2)
    switches = Ledger.over(database, wired.core.master).switches

    async def play(request_id: str, tenant: str, execute: Callable[[], Awaitable[Progress]]) -> tuple[str, float]:
        _call.set(request_id)
        watch.intended[request_id] = asyncio.Event()
        run_id = (await desk.record(request_id)).details.call.binding.run_id
        executing = asyncio.ensure_future(execute())
        await watch.intended[request_id].wait()
        await asyncio.sleep(chance.uniform(0, 1.0))
        await switches.turn_off(tenant, f"run:{run_id}", by="olga", reason="an example")
        acknowledged = time.monotonic()
        await executing
        return request_id, acknowledged

    try:
        played = await asyncio.gather(*(play(*each) for each in ready))
    finally:
        await database.close()
    ended: dict[Code, int] = {}
    for request_id, acknowledged in played:
        record = await desk.record(request_id)
        began, sends = watch.began.get(request_id, []), await wired.outside.sends(record)
        assert sends == len(began) <= 1, "the gateway received what was seen to leave"
        assert (record.code, record.status) == ((Code.OK, "executed") if began else (OFF, "refused"))
        assert all(each <= acknowledged for each in began), "it began after the acknowledgement"
        ended[record.code] = ended.get(record.code, 0) + 1
    assert set(ended) == {Code.OK, OFF}, "the window was not hit"


async def test_a_sender_that_stood_still_asks_again_and_sends_once(wired: Service) -> None:
    desk = late(wired, lambda: asyncio.sleep(PERMIT.total_seconds() + 0.1))
    order = await wired.outside.order()
    sent = await desk.refund(order, 4_000)
    assert sent.code is Code.OK
    assert len(await wired.outside.effects(order)) == 1
    assert await wired.outside.sends(await desk.record(sent.request_id)) == 1
    assert (await desk.types(sent.request_id)).count("effect.intended") == 1


async def test_a_process_that_stood_still_asks_again_and_sends_once(wired: Service) -> None:
    """As a whole, nothing of it running meanwhile."""

    def stand_still(point: str) -> None:
        if point == "send.before":
            time.sleep(PERMIT.total_seconds() + 0.1)

    desk = Desk(wired.elsewhere(reached=stand_still))
    order = await wired.outside.order()
    sent = await desk.refund(order, 4_000)
    assert sent.code is Code.OK
    assert await wired.outside.sends(await desk.record(sent.request_id)) == 1


async def test_a_sender_that_stood_still_sends_nothing_once_it_is_off(wired: Service) -> None:
    desk = late(wired, lambda: turn_off(wired, EVERYONE, "class:money_movement"))
    order = await wired.outside.order()
    try:
        sent = await desk.refund(order, 4_000)
    finally:
        await turn_on(wired, EVERYONE, "class:money_movement")
    record = await desk.record(sent.request_id)
    assert (record.code, record.status) == (OFF, "refused")
    assert await desk.types(sent.request_id) == [
        "call.proposed",
        "call.decided",
        "effect.intended",
        "effect.failed",
        "call.settled",
    ]
    assert await wired.outside.sends(record) == 0
    again = await Desk(wired).refund(order, 10_000)
    assert again.code is not Code.REFUND_EXCEEDS_PAID, "it holds nothing any more"


async def test_a_repeat_that_stood_still_sends_nothing_and_is_still_not_known(wired: Service) -> None:
    """Whether the first attempt arrived nobody knows: the call is not refused, and it is not sent again."""
    order = await wired.outside.order()
    patience = Patience(absence=timedelta(0), review=timedelta(hours=1))
    desk = Desk(wired.elsewhere(patience=patience))
    await wired.outside.fault("503", order)
    sent = await desk.refund(order, 4_000)
    assert (await desk.inspect(sent.request_id)).next == "resend"
    record = await desk.record(sent.request_id)
    slow = late(wired, lambda: turn_off(wired, record.tenant, "all"), patience=patience)
    await slow.resend(sent.request_id)
    record = await desk.record(sent.request_id)
    assert (record.status, await wired.outside.sends(record)) == ("outcome_unknown", 1)
    await turn_on(wired, record.tenant, "all")
    assert (await desk.inspect(sent.request_id)).next == "resend"
    assert (await desk.resend(sent.request_id)).code is Code.OK
    assert len(await wired.outside.effects(order)) == 1


async def test_another_process_stops_within_a_second(wired: Service, temporal_server: str) -> None:
    """Its next call at once; and what it was about to send when the acknowledgement came."""
    with address_of(temporal_server):
        context = core(wired.core.settings, connections=4)
        other_core = await context.__aenter__()
    try:
        async with activity_services(other_core, inline=True) as services:
            other = replace(wired, core=other_core, services=services)
            order = await wired.outside.order()
            tenant = f"t{order['order_id'].removeprefix('ord_')}"
            run = await wired.open_run(order["customer_id"], tenant=tenant)
            about = asyncio.Event()

            async def until_it_is_off() -> None:
                about.set()
                while not await wired.core.ledger.switches.off(tenant):
                    await asyncio.sleep(0.01)
                await asyncio.sleep(PERMIT.total_seconds())

            held = late(other, until_it_is_off)
            asked = await other.input_for(run.run_id, refund_arguments(order, 500))
            sending = asyncio.ensure_future(held.admit(*asked))
            await about.wait()
            begun = time.monotonic()
            await turn_off(wired, tenant, "tool:issue_refund")
            assert time.monotonic() - begun < PERMIT.total_seconds() + 0.5
            fresh = await Desk(other).admit(*await other.input_for(run.run_id, refund_arguments(order, 600)))
            assert fresh.code is OFF
            assert (await sending).code is OFF
            assert await wired.outside.effects(order) == []
            await turn_on(wired, tenant, "tool:issue_refund")
            fresh = await Desk(other).admit(*await other.input_for(run.run_id, refund_arguments(order, 700)))
            assert fresh.code is Code.OK
    finally:
        await context.__aexit__(None, None, None)


async def _expire(desk: Desk, request_id: str) -> Progress:
    closing = Closing(desk.service.services, desk.decisions, desk.effects)
    return await (await desk.service.activities_of(request_id)).run(closing.expire, CallRef(request_id=request_id))


@pytest.mark.parametrize("deadlines", ["pause", "run"])
async def test_deadlines_are_paused_or_run_on(wired: Service, deadlines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.switches.PERMIT", timedelta(0))
    desk, ledger = Desk(wired), wired.core.ledger
    order = await wired.outside.order(50_000)
    approval = await desk.parked(order)
    await ledger.switches.turn_off(
        approval.tenant, "class:money_movement", by="olga", reason="an example", deadlines=deadlines
    )
    # Half an hour was left when it was turned off, which was two hours ago.
    await ledger.system.execute(
        "UPDATE approvals SET expires_at = now() - interval '90 minutes' WHERE approval_id = $1", approval.approval_id
    )
    await ledger.system.execute(
        "UPDATE switches SET off_at = now() - interval '2 hours' WHERE tenant = $1", approval.tenant
    )
    progress = await _expire(desk, approval.request_id)
    if deadlines == "run":
        assert (progress.next, progress.code) == ("settled", Code.APPROVAL_EXPIRED)
        await turn_on(wired, approval.tenant, "class:money_movement")
        return
    assert progress.next == "hold"
    before = (await desk.record(approval.request_id)).updated_at
    assert progress.expires_at is not None
    assert progress.expires_at > before, "it is looked at again, after a while"
    await turn_on(wired, approval.tenant, "class:money_movement")
    prolonged = await desk.service.approval(await desk.record(approval.request_id))
    left = prolonged.expires_at - await ledger.system.fetchval("SELECT now()")
    assert timedelta(minutes=29) < left < timedelta(minutes=31)
    progress = await _expire(desk, approval.request_id)
    assert (progress.next, progress.expires_at) == ("hold", prolonged.expires_at), "the workflow waits for that now"
    assert (await desk.approved(prolonged)).code is Code.OK


@pytest.mark.parametrize(
    ("first", "second", "paused"),
    [
        # Minutes: when it is turned off, and on.
        ((0, 60), (10, 30), 60),
        ((0, 60), (30, 90), 90),
        ((0, 20), (40, 60), 40),
        ((0, 60), (0, 60), 60),
    ],
    ids=["within", "overlapping", "apart", "together"],
)
@pytest.mark.parametrize("swapped", [False, True])
async def test_a_deadline_that_two_switches_pause_moves_by_the_time_that_it_was_paused(
    wired: Service,
    first: tuple[int, int],
    second: tuple[int, int],
    paused: int,
    swapped: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ledger.switches.PERMIT", timedelta(0))
    desk, ledger = Desk(wired), wired.core.ledger
    approval = await desk.parked(await wired.outside.order(50_000))
    before = approval.expires_at
    names = ["class:money_movement", "agent:support-bot"]
    off = dict(zip(reversed(names) if swapped else names, (first, second), strict=True))
    turns = sorted((minute, turn == 1, name) for name, span in off.items() for turn, minute in enumerate(span))
    now = 0
    for minute, is_on, name in turns:
        # Time goes by: what was, was so much longer ago.
        ago = timedelta(minutes=minute - now)
        await ledger.system.execute(
            "UPDATE switches SET off_at = off_at - $1::interval WHERE tenant = $2", ago, approval.tenant
        )
        now = minute
        if is_on:
            await turn_on(wired, approval.tenant, name)
        else:
            await ledger.switches.turn_off(approval.tenant, name, by="olga", reason="an example", deadlines="pause")
    after = await desk.service.approval(await desk.record(approval.request_id))
    moved = after.expires_at - before
    assert timedelta(0) <= moved - timedelta(minutes=paused) < timedelta(seconds=30)
