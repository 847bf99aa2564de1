"""The machine: everything that can happen to calls, in any order, against the real workflows, activities and ledger."""

import secrets
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, ClassVar, get_args

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pydantic import JsonValue

from activities.services import CrashPoint
from ledger.records import SETTLED
from tests.model.checks import Watch
from tests.model.network import Disturbance
from tests.model.temporal import Execution
from tests.model.world import Ground, World

REFUND_FAULTS = (
    "commit_then_drop",
    "commit_then_500",
    "garbage",
    "html",
    "duplicate_keys",
    "wrong_amount",
    "wrong_id",
    "pending",
    "pending_then_failed",
    "late_visible:30",
    "late_visible:1000",
    "drop_before_read",
    "reset",
    "redirect_self",
    "429:5",
    "429:5:lock_timeout",
    "503",
    "in_use",
    "already_refunded",
)
READ_FAULTS = ("503", "garbage", "html", "reset", "wrong_amount", "wrong_id", "duplicate_keys", "429:1")
AMOUNTS = (4_000, 1_000, 6_000, 9_000, 21_000, 25_000, 30_000)
SPANS = (timedelta(seconds=30), timedelta(minutes=6), timedelta(minutes=40), timedelta(hours=2), timedelta(hours=25))

_any = st.integers(0, 7)
_order = st.integers(0, 2)
_times = st.sampled_from([1, 2, 9])


class Calls(RuleBasedStateMachine):
    """One history of a tenant's calls."""

    # Set by whoever runs the machine.
    run_async: ClassVar[Callable[[Coroutine[Any, Any, Any]], Any]]
    ground: ClassVar[Ground]
    played: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None
        self.keys: list[str] = []
        self.changed = False
        self._watch: Watch | None = None
        self.last: dict[int, dict[str, JsonValue]] = {}
        self.outside = False

    def do(self, name: str, work: Coroutine[Any, Any, Any], *, outside: bool = False) -> Any:
        self.played[name] += 1
        self.changed, self.outside = True, self.outside or outside
        return type(self).run_async(work)

    @property
    def watch(self) -> Watch:
        assert self._watch is not None
        return self._watch

    @property
    def w(self) -> World:
        assert self.world is not None
        return self.world

    @initialize(
        skew=st.sampled_from([0, 0, 0, -2, 3]),
        long=st.booleans(),
        order=_order,
        amount=st.sampled_from(AMOUNTS),
        faults=st.lists(st.sampled_from(REFUND_FAULTS), max_size=2),
    )
    def begin(self, skew: int, long: bool, order: int, amount: int, faults: list[str]) -> None:
        """A tenant's first call, into whatever awaits it."""

        async def start() -> None:
            await self.ground.clock.set(timedelta())
            self.ground.clock.skew = timedelta(seconds=skew)
            self.world = World(self.ground)
            self._watch = Watch(self.world)
            self.world.server.long_histories = long

        self.keys = [secrets.token_hex(16) for _ in range(4)]
        self.do("histories", start())
        for do in faults:
            self.fault(do, order, 1)
        self.propose(0, order, amount, 0)

    # Agents

    @rule(key=st.integers(0, 3), order=_order, amount=st.sampled_from(AMOUNTS), reason=st.integers(0, 1))
    def propose(self, key: int, order: int, amount: int, reason: int) -> None:
        """A new call, a repeat or a conflict, as the key says."""
        raw: dict[str, JsonValue] = {
            "order_id": self.w.orders[order].order_id,
            "amount_cents": amount,
            "currency": "USD",
            "reason_code": ("damaged", "goodwill")[reason],
            "idempotency_key": self.keys[key],
        }
        self.last.setdefault(key, raw)
        self.do("propose", self.w.propose(raw))

    @rule(n=_any)
    def repeat(self, n: int) -> None:
        """The same call again, under the same key."""
        raw = list(self.last.values())[n % len(self.last)]
        self.do("repeat", self.w.propose(raw))

    @precondition(lambda self: self.rows("pending_approval"))
    @rule(n=_any, how=st.sampled_from(["api", "api, undelivered", "signal"]))
    def withdraw(self, n: int, how: str) -> None:
        self.do("withdraw", self._withdraw(self.pick(self.rows("pending_approval"), n), how))

    async def _withdraw(self, row: Any, how: str) -> None:
        record = await self.w.own.calls.read(row["request_id"])
        execution = self.w.server.executions.get(record.workflow_id)
        if how != "signal":
            with self.w.unreachable(when=how != "api"):
                await self.w.withdraw(record)
        elif execution is not None and execution.status == "running":
            self.w.server.signal(execution, "withdraw")
        await self.w.work()

    # People

    @precondition(lambda self: self.held())
    @rule(
        n=_any,
        verdict=st.sampled_from(["approve", "approve", "deny"]),
        who=st.sampled_from(["ana", "ben"]),
        delivered=st.booleans(),
    )
    def decide(self, n: int, verdict: Any, who: str, delivered: bool) -> None:
        self.do(verdict, self._decide(self.pick(self.held(), n), verdict, who, delivered=delivered))

    async def _decide(self, row: Any, verdict: Any, who: str, *, delivered: bool) -> None:
        record = await self.w.own.calls.read(row["request_id"])
        assert record.approval_id is not None
        with self.w.unreachable(when=not delivered):
            await self.w.decide(record.approval_id, verdict, who)
        await self.w.work()

    @precondition(lambda self: self.rows("pending_approval"))
    @rule()
    def approve_all(self) -> None:
        for row in self.rows("pending_approval"):
            self.do("approve", self._decide(row, "approve", "ana", delivered=True))

    @precondition(lambda self: any(row["review"] for row in self.watch.calls.values()))
    @rule(n=_any)
    def settle(self, n: int) -> None:
        """An operator settles an unknown outcome."""
        rows = [row for row in self.watch.calls.values() if row["review"]]
        self.do("settle", self._settle(self.pick(rows, n)))

    async def _settle(self, row: Any) -> None:
        await self.w.settle(await self.w.own.calls.read(row["request_id"]))
        await self.w.work()

    # The gateway

    @rule(do=st.sampled_from(REFUND_FAULTS), order=_order, times=_times)
    def fault(self, do: str, order: int, times: int) -> None:
        self.w.fault(do, "refund", self.payment(order), times)

    @rule(
        do=st.sampled_from(READ_FAULTS),
        operation=st.sampled_from(["list", "get"]),
        order=_order,
        times=st.sampled_from([1, 3, 30]),
    )
    def read_fault(self, do: str, operation: str, order: int, times: int) -> None:
        self.w.fault(do, operation, self.payment(order), times)

    @rule(what=st.sampled_from(get_args(Disturbance)), order=_order)
    def disturb(self, what: Disturbance, order: int) -> None:
        self.w.network.disturbances.append((what, self.payment(order)))

    @precondition(lambda self: any(each.waited_for for each in self.w.network.held))
    @rule(n=_any, how=st.sampled_from(["answer", "lose"]))
    def go_on(self, n: int, how: Any) -> None:
        held = [each for each in self.w.network.held if each.waited_for]
        self.do(f"held: {how}", self.w.go_on(self.pick(held, n), how))

    @precondition(lambda self: any(not each.waited_for for each in self.w.network.held))
    @rule(n=_any)
    def arrive_late(self, n: int) -> None:
        """A request that nobody waits for any more reaches the gateway after all."""
        held = self.pick([each for each in self.w.network.held if not each.waited_for], n)
        self.do("arrive_late", self.w.network.arrive(held), outside=True)
        self.w.network.held.remove(held)

    @precondition(lambda self: self.w.effects())
    @rule(n=_any)
    def webhook(self, n: int) -> None:
        effect = self.pick(self.w.effects(), n)
        self.do("webhook", self.w.webhook(effect["operation_id"], effect["refund_id"]))

    @precondition(lambda self: self.w.effects())
    @rule(n=_any)
    def bank_sends_back(self, n: int) -> None:
        self.w.bank_sends_back(self.pick(self.w.effects(), n)["refund_id"])
        self.played["bank_sends_back"] += 1
        self.changed = self.outside = True

    @rule(
        what=st.sampled_from(["dashboard", "dispute", "revoke"]), order=_order, amount=st.sampled_from([3_000, 8_000])
    )
    def happen(self, what: str, order: int, amount: int) -> None:
        """Others refund by hand, dispute the payment, or end the run."""
        self.do(what, self._happen(what, order, amount), outside=True)

    async def _happen(self, what: str, order: int, amount: int) -> None:
        if what == "dashboard":
            self.w.dashboard(self.payment(order), amount)
        elif what == "dispute":
            self.w.dispute(order)
        else:
            await self.w.revoke_run()

    # Processes and time

    @rule(point=st.sampled_from(get_args(CrashPoint)))
    def crash(self, point: CrashPoint) -> None:
        """The next worker that comes there dies."""
        self.w.crash_at = point
        self.played["crash"] += 1

    @rule()
    def stop_or_start_workers(self) -> None:
        self.w.workers = not self.w.workers
        self.do("stop_or_start_workers", self.w.work())

    @precondition(lambda self: not self.w.workers and self.w.server.asked())
    @rule(n=_any)
    def work_on_one(self, n: int) -> None:
        self.do("work_on_one", self.w.work_on(self.pick(self.w.server.asked(), n)))

    @rule(span=st.sampled_from(SPANS))
    def pass_time(self, span: timedelta) -> None:
        self.do("pass_time", self.w.pass_time(span))

    @precondition(lambda self: self.running())
    @rule(n=_any)
    def lose_workflow(self, n: int) -> None:
        """Temporal comes back from an older copy, without it."""
        self.do("lose_workflow", self._lose(self.pick(self.running(), n)))

    async def _lose(self, execution: Execution) -> None:
        self.w.server.lose(execution)

    @precondition(lambda self: self.running())
    @rule(n=_any)
    def replay(self, n: int) -> None:
        self.do("replay", self._replay(self.pick(self.running(), n)))

    async def _replay(self, execution: Execution) -> None:
        self.w.server.evict(execution)

    @rule()
    def heal(self) -> None:
        self.do("heal", self.w.heal())

    # What holds

    @invariant()
    def holds(self) -> None:
        if self.changed:
            type(self).run_async(self.watch.look(outside=self.outside))
            self.changed = self.outside = False

    def teardown(self) -> None:
        if self.world is not None:
            try:
                type(self).run_async(self._end())
            finally:
                type(self).run_async(self.w.close())

    async def _end(self) -> None:
        """Faults stop; everything comes to its end."""
        world = self.w
        world.calm()
        for held in [*world.network.held]:
            if held.waited_for:
                await world.go_on(held, "lose")
        for held in [*world.network.held]:
            await world.network.arrive(held)
            world.network.held.remove(held)
        await world.work()
        await self.watch.look(outside=True)
        for _ in range(100):
            await world.heal()
            await self.watch.look()
            rest = all(row["status"] in SETTLED or row["review"] for row in self.watch.calls.values())
            if rest and not any(execution.asked for execution in self.running()):
                break
            moment = world.server.next_moment()
            await world.pass_time(timedelta(0) if moment is None else moment - world.clock.now())
        # By then everything shows that showed late.
        await world.pass_time(timedelta(hours=1))
        for effect in world.effects():
            await world.webhook(effect["operation_id"], effect["refund_id"])
        await self.watch.look()
        await self.watch.at_the_end()
        self.played["calls"] += len(self.watch.calls)
        self.played.update(row["status"] for row in self.watch.calls.values())

    # Choosing

    def rows(self, status: str) -> list[Any]:
        return [row for row in self.watch.calls.values() if row["status"] == status]

    def held(self) -> list[Any]:
        """Those that people were asked about, decided or not."""
        return [row for row in self.watch.calls.values() if row["approval"] is not None]

    def running(self) -> list[Any]:
        return [each for each in self.w.server.executions.values() if each.status == "running"]

    def payment(self, order: int) -> str:
        return self.w.orders[order].payments[0].payment_id

    @staticmethod
    def pick(items: list[Any], n: int) -> Any:
        return items[n % len(items)]
