"""One history's world: a tenant and a sandbox of its own, and the service between them, over a shared ledger."""

import asyncio
import contextlib
import secrets
import sqlite3
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Literal, cast

import httpx
from pydantic import JsonValue, SecretStr
from temporalio import activity
from temporalio.service import RPCError

from activities.all import effect_activities, workflow_activities
from activities.services import CrashPoint, Services
from api import deciding
from api.calling import call_tool
from api.context import Context
from api.looking import look_again
from api.problems import Refused
from gateways.protocols import Systems
from gateways.registry import Endpoint, helpdesk, order_system, payment_gateway
from ledger.database import connect
from ledger.keys import MasterKey
from ledger.ledger import Ledger, TenantLedger
from ledger.principals import Principal
from ledger.records import CallRecord
from ledger.reviews import Conclusion, Settled
from ledger.signing import DecisionSigner, DecisionVerifier
from policy.in_force import Fixed
from policy.load import DEFAULT_POLICY
from policy.model import Policy
from runtime.healing import Healer
from runtime.policy import load_checked
from runtime.workers import WORKFLOWS
from sandbox import faults, orders, refunds
from sandbox.app import Keys, create_apps
from sandbox.models import Customer, Order
from sandbox.state import SCHEMA, State
from sandbox.stripe_shapes import StripeError
from schemas.calls import Binding
from schemas.codes import Code
from schemas.replies import Reply
from tests import loopback
from tests.model.client import StandIn
from tests.model.clock import Clock
from tests.model.network import Held, Network
from tests.model.temporal import Asked, Died, Server
from tools.catalog import Catalog, Entry
from tools.protocol import Arguments

KEY = "the sandbox's key"
MASTER = b"the key that models encrypt with"
QUEUE = "model"
TOOL = "issue_refund"
# Longer than the healer leaves a call to itself.
HEALED_AFTER = timedelta(seconds=6)
CAPTURED = ((10_000,), (45_000,), (40_000, 5_000))
"""What each order was paid with."""


@dataclass(frozen=True)
class Ground:
    """What all histories share: the ledger, the tools, the policy."""

    ledger: Ledger
    clock: Clock
    catalog: Catalog
    policy: Policy
    signer: DecisionSigner
    verifier: DecisionVerifier
    entry: Entry


@asynccontextmanager
async def ground(database_url: str) -> AsyncGenerator[Ground]:
    """The service's core over a database whose clock is a model's."""
    clock = await Clock.install(database_url)
    database = await connect(database_url, maximum=6)
    try:
        master, catalog = MasterKey(MASTER), Catalog.load()
        entry = catalog.get(TOOL)
        assert entry is not None
        yield Ground(
            ledger=Ledger.over(database, master),
            clock=clock,
            catalog=catalog,
            policy=load_checked(DEFAULT_POLICY, catalog),
            signer=DecisionSigner(master),
            verifier=DecisionVerifier.of(master),
            entry=entry,
        )
    finally:
        await database.close()
        await clock.database.close()


class World:
    """What people, agents, the gateway and fate do to the service. `workers`: whether activities run by themselves."""

    def __init__(self, common: Ground) -> None:
        self.ground = common
        self.clock = common.clock
        self.tenant = f"t{secrets.token_hex(6)}"
        self.state = _state(self.clock)
        gateway, store, _ = create_apps(self.state, Keys(KEY, KEY, KEY))
        self.network = Network(gateway, store)
        self.workers = True
        self.crash_at: CrashPoint | None = None
        self.crashed = 0
        self._http = httpx.AsyncClient(transport=self.network, trust_env=False)
        self._services = self._wire()
        activities = [*workflow_activities(self._services), *effect_activities(self._services)]
        named = {cast(str, activity._Definition.must_from_callable(each).name): each for each in activities}
        self.server = Server(self.clock, WORKFLOWS, named)
        self.temporal = StandIn(self.server)
        self.healer = Healer(
            common.ledger, self.temporal.client, common.catalog, QUEUE, public_url="http://counterseal.test"
        )
        self.customer = f"cus_{secrets.token_hex(6)}"
        self.orders = [self._put_order(captured) for captured in CAPTURED]
        orders.put_customer(self.state, Customer(customer_id=self.customer, name="Ada Example", email="a@example.com"))
        self.payments = {p.payment_id: p.captured_cents for order in self.orders for p in order.payments}
        self.run: Binding | None = None
        self._run_until = self.clock.now()

    @property
    def own(self) -> TenantLedger:
        return self.ground.ledger.of(self.tenant)

    async def close(self) -> None:
        """Leave nothing behind that a later history's healer would find."""
        for execution in list(self.server.executions.values()):
            self.server.lose(execution)
        for task in self.server.tasks:
            task.cancel()
        await asyncio.gather(*self.server.tasks, return_exceptions=True)
        await self._http.aclose()
        self.state.close()
        await self.ground.ledger.database.tenant(self.tenant).execute(
            "UPDATE calls SET status = 'over', recheck_at = NULL, review = NULL WHERE tenant = $1", self.tenant
        )

    def _wire(self) -> Services:
        egress = loopback.egress("http://gateway", "http://store", "http://helpdesk")
        endpoint = Endpoint("http://gateway", SecretStr(KEY), deadline_seconds=30)
        return Services(
            ledger=self.ground.ledger,
            catalog=self.ground.catalog,
            policies=Fixed(self.ground.policy),
            systems=Systems(
                payments=payment_gateway("sandbox", endpoint, self._http, egress),
                orders=order_system("store", replace(endpoint, base_url="http://store"), self._http, egress),
                helpdesk=helpdesk("zendesk", replace(endpoint, base_url="http://helpdesk"), self._http, egress),
            ),
            verifier=self.ground.verifier,
            task_queue=QUEUE,
            tenant=self.tenant,
            inline=True,
            committed=lambda record: None,
            reached=self._reached,
        )

    def _reached(self, point: CrashPoint) -> None:
        if point == self.crash_at:
            self.crash_at = None
            self.crashed += 1
            raise Died

    def _put_order(self, captured: tuple[int, ...], **changes: Any) -> Order:
        mark = secrets.token_hex(6)
        order = Order.model_validate(
            {
                "order_id": f"ord_{mark}",
                "customer_id": self.customer,
                "status": "delivered",
                "placed_at": "2026-01-02T03:04:05Z",
                "currency": "USD",
                "items": [{"item_id": "1", "name": "Lamp", "quantity": 1, "price_cents": 10_000, "options": {}}],
                "payments": [
                    {"payment_id": f"pay_{mark}{n}", "method": "card", "captured_cents": cents}
                    for n, cents in enumerate(captured)
                ],
                "shipping_address": {
                    "line1": "1 Example Street",
                    "city": "Springfield",
                    "postal_code": "10001",
                    "country": "US",
                },
            }
        )
        orders.put_order(self.state, order)
        return order

    # Time and work

    async def work(self) -> None:
        """Everything that can be done now, where the workers run."""
        self.server.fire()
        while self.workers and (asked := self.server.asked()):
            await self.work_on(asked[0])

    async def work_on(self, asked: Asked) -> None:
        await self.server.work(asked, self.network.stuck)
        self.server.fire()

    async def go_on(self, held: Held, how: Literal["answer", "lose"]) -> None:
        """What hung goes on."""
        self.network.stuck.clear()
        held.go_on.set_result(how)
        await self.server.watch(self.network.stuck)
        await self.work()

    async def pass_time(self, span: timedelta) -> None:
        """Let time pass, and everything happen in it that happens of itself."""
        until = self.clock.now() + span
        while (moment := self.server.next_moment()) is not None and moment <= until and self.workers:
            await self.clock.go_to(moment)
            await self.work()
        await self.clock.go_to(until)
        await self.work()

    async def heal(self) -> None:
        """The healer's turn, after a while."""
        await self.pass_time(HEALED_AFTER)
        with contextlib.suppress(RPCError):
            await self.healer.heal()
            await self.healer.recheck()
        await self.work()

    @contextlib.contextmanager
    def unreachable(self, *, when: bool) -> Generator[None]:
        """Temporal cannot be reached meanwhile."""
        self.temporal.away = when
        try:
            yield
        finally:
            self.temporal.away = False

    # Agents

    async def open_run(self) -> Binding:
        principal = Principal(kind="service", tenant=self.tenant, name="runtime")
        opened = await self.ground.ledger.principals.open_run(
            principal,
            agent_id="support-bot",
            actor_id="user_17",
            customer_id=self.customer,
            tools=(TOOL,),
            seconds=86_400,
        )
        self._run_until = self.clock.now() + timedelta(hours=23)
        self.run = Binding(
            tenant=self.tenant,
            run_id=opened.run_id,
            agent_id="support-bot",
            actor_id="user_17",
            customer_id=self.customer,
        )
        return self.run

    async def propose(self, raw: dict[str, JsonValue]) -> Reply | Code:
        """What the agent is told, or why it was not taken."""
        binding = self.run if self.run is not None and self.clock.now() < self._run_until else await self.open_run()
        arguments = self.ground.catalog.validate_arguments(TOOL, raw)
        context = SimpleNamespace(
            ledger=self.ground.ledger,
            temporal=self.temporal,
            task_queue=QUEUE,
            eager_start=False,
            public_url="http://counterseal.test",
            waiters=SimpleNamespace(wait=self._wait),
        )
        try:
            return await call_tool(
                cast(Context, context), binding, self.ground.entry, cast(Arguments, arguments), raw, wait_seconds=20
            )
        except Refused as refused:
            return refused.reply.code

    async def _wait(self, workflow_id: str, seconds: float, until: Any = None, *, just_begun: bool = False) -> None:
        await self.work()

    async def revoke_run(self) -> None:
        """End the run; the next call opens another."""
        principal = Principal(kind="service", tenant=self.tenant, name="runtime")
        if self.run is not None:
            await self.ground.ledger.principals.revoke_run(principal, self.run.run_id)
        self.run = None

    async def withdraw(self, record: CallRecord) -> bool:
        """As the agent's API does it."""
        after, withdrawn = await self.own.approvals.withdraw(record.request_id, record.agent_id)
        if withdrawn:
            with contextlib.suppress(RPCError):
                await self.temporal.get_workflow_handle(after.workflow_id).signal("withdraw")
        return withdrawn

    # People

    async def decide(self, approval_id: str, verdict: Literal["approve", "deny"], who: str) -> deciding.Decided:
        approval = await self.own.approvals.get(self.tenant, approval_id)
        assert approval is not None
        context = SimpleNamespace(
            ledger=self.ground.ledger,
            temporal=self.temporal,
            signer=self.ground.signer,
            catalog=self.ground.catalog,
        )
        decider = deciding.Decider(self.tenant, who, frozenset({"finance"}))
        return await deciding.decide(
            cast(Context, context),
            decider,
            approval_id,
            verdict,
            action_digest=approval.action_digest,
            reason="because",
        )

    async def settle(self, record: CallRecord) -> Settled:
        """An operator looks at the gateway, and says what is there."""
        effect = record.details.effect
        assert effect is not None
        (there,) = [each for each in self.effects() if each["operation_id"] == effect.operation_id] or [None]
        happened = there is not None and there["status"] not in ("failed", "canceled")
        tool = cast(Any, self.ground.entry.tool)
        assert record.review is not None
        conclusion = Conclusion(
            operator="olga",
            because=record.review,
            happened=happened,
            evidence="seen in the gateway's dashboard",
            remote_id=there["refund_id"] if there and happened else None,
            result=tool.presumed(effect, there["refund_id"]) if there and happened else None,
            done="it" if happened else "",
        )
        settled, _ = await self.own.reviews.conclude(record.request_id, conclusion)
        with contextlib.suppress(RPCError):
            await self.temporal.get_workflow_handle(record.workflow_id).signal("look")
        return settled

    # The gateway

    def calm(self) -> None:
        """Everything works again, and nothing more goes wrong."""
        faults.clear(self.state)
        self.network.disturbances.clear()
        self.crash_at = None
        self.workers = True
        self.server.long_histories = False

    def effects(self) -> list[dict[str, Any]]:
        return refunds.effects(self.state)

    def refunded(self, payment: str) -> int:
        return refunds._refunded(self.state, payment)

    def fault(self, do: str, operation: str, payment: str, times: int) -> None:
        item = {"operation": operation, "do": do, "times": times, "payment_id": payment}
        faults.append(self.state, [faults.FaultItem.model_validate(item)])

    def dashboard(self, payment: str, amount: int) -> None:
        """A person refunds there, if there is so much left."""
        left = self.payments[payment] - self.refunded(payment)
        if left > 0:
            with contextlib.suppress(StripeError), self.state.transaction():
                refunds.create_in_dashboard(self.state, payment, min(amount, left))

    def bank_sends_back(self, refund_id: str) -> None:
        with self.state.transaction():
            refunds.set_status(self.state, refund_id, "failed")

    def dispute(self, n: int) -> None:
        with self.state.transaction():
            orders.put_order(self.state, self.orders[n].model_copy(update={"disputed": True}))

    async def webhook(self, operation_id: str | None, refund_id: str | None) -> None:
        """As the webhook route takes it once it is found genuine."""
        call = await self.ground.ledger.calls.by_effect(operation_id, refund_id)
        if call is not None:
            with contextlib.suppress(RPCError):
                await look_again(
                    self.temporal.client, self.ground.catalog, QUEUE, call, public_url="http://counterseal.test"
                )
        await self.work()


def _state(clock: Clock) -> State:
    database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    database.row_factory = sqlite3.Row
    database.executescript(SCHEMA)
    return State(database, clock.now_us)
