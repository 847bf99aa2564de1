"""`python -m tests.chaos.load`: the agents and approvers, a process of their own that nothing of the run kills.

    run     plays the scenarios of a seed until so many calls were sent, and goes on until the file `enough` is there
    sweep   sends everything again that was ever sent, under the same keys, until it rests
    look    asks once more how every call stands that an agent was told of

What was sent and what was told stands in `agents.jsonl` and `people.jsonl` of the folder.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.journal import Journal, Line, lines
from tests.chaos.people import Case, People
from tests.chaos.plan import Call, Scenario, customer_line, order_line, scenarios
from tests.chaos.wire import SETTLED, Agent, Wire, until_it_rests

AGENTS, MANY_AGENTS = 8, 40
MANY_CALLS = 300
_PATIENCE = 12
_LAST_PATIENCE = 90


@dataclass(frozen=True)
class Folder:
    """The files by which the machine and the load speak, and what stays as evidence."""

    root: Path

    @property
    def ready(self) -> Path:
        return self.root / "ready.json"

    @property
    def agents(self) -> Path:
        return self.root / "agents.jsonl"

    @property
    def people(self) -> Path:
        return self.root / "people.jsonl"

    @property
    def runs(self) -> Path:
        """The runs' tokens: agents keep them over a pause."""
        return self.root / "runs.jsonl"

    @property
    def sent(self) -> Path:
        """How many calls were sent until now."""
        return self.root / "sent"

    @property
    def enough(self) -> Path:
        """Written when everything that shall go wrong has gone wrong."""
        return self.root / "enough"


@dataclass
class Load:
    """Everyone who speaks to the service."""

    folder: Folder
    wire: Wire
    agents: Journal
    runs: Journal
    people: People
    cases: dict[str, Case] = field(default_factory=dict[str, Case])
    sent: int = 0

    @classmethod
    def of(cls, folder: Folder) -> "Load":
        wire, cases = Wire(folder.ready), dict[str, Case]()
        people = People(wire, Journal(folder.people), cases)
        return cls(folder, wire, Journal(folder.agents), Journal(folder.runs), people, cases)

    async def run(self, seed: int, calls: int, seconds: float) -> None:
        """Play scenarios: so many calls at least, and no new ones after so many seconds."""
        stream, end = scenarios(seed), time.monotonic() + seconds

        def wanted() -> bool:
            return time.monotonic() < end and (self.sent < calls or not self.folder.enough.exists())

        async with self._people(), asyncio.TaskGroup() as tasks:
            for _ in range(MANY_AGENTS if calls >= MANY_CALLS else AGENTS):
                tasks.create_task(self._play(stream, wanted, calls))

    async def _play(self, stream: Iterator[Scenario], wanted: Callable[[], bool], calls: int) -> None:
        while wanted():
            scenario = next(stream)
            if self.sent >= calls:  # what follows only keeps the service busy
                await asyncio.sleep(0.5)
            self.sent += scenario.calls
            self.folder.sent.write_text(str(self.sent))
            agent = await self._begin(scenario)
            patience = 0.5 if scenario.deciding == "nobody" else _PATIENCE
            for wave in scenario.waves:
                replies = await asyncio.gather(*(self._send(agent, call, patience) for call in wave))
                if scenario.sent_back and wave is scenario.waves[0]:
                    await self._send_back(agent, replies[0])

    async def _begin(self, scenario: Scenario) -> Agent:
        """Put the order where the service finds it, the faults before it, and open the run."""
        order = scenario.order
        self.agents.write(
            "order", order_id=order.order_id, payment_id=order.payment_id, captured=order.captured, currency="USD"
        )
        await self.wire.sandbox("PUT", "store", f"/_customers/{scenario.customer_id}", customer_line(scenario))
        await self.wire.sandbox("PUT", "store", f"/_orders/{order.order_id}", order_line(scenario))
        if scenario.faults:
            await self.wire.sandbox("POST", "gateway", "/_faults", list(scenario.faults))
        if scenario.webhooks:
            await self.wire.sandbox("POST", "gateway", "/_webhooks", scenario.webhooks)
        body = {
            "agent_id": f"example-agent-{scenario.customer_id}",
            "actor_id": "user_example",
            "customer_id": scenario.customer_id,
            "tools": ["issue_refund", "cancel_order", "change_shipping_address", "lookup_orders"],
            "expires_in_seconds": 43_200,
        }
        opened = (await self.wire.insist("POST", "/v1/runs", self.wire.info["service_token"], body)).body
        known = {"customer_id": scenario.customer_id, "deciding": scenario.deciding}
        self.runs.write("run", run_id=opened["run_id"], token=opened["run_token"], **known)
        return self._know({**known, "run_id": opened["run_id"], "token": opened["run_token"]})

    def _know(self, run: Line) -> Agent:
        agent = Agent(self.wire, self.agents, run["run_id"], run["token"])
        self.cases[run["customer_id"]] = Case(run["deciding"], agent)
        return agent

    async def _send(self, agent: Agent, call: Call, patience: float, resting: frozenset[str] = SETTLED) -> Line:
        reply = await agent.call(call.tool, call.arguments, dry_run=call.dry_run)
        return await until_it_rests(agent, reply, patience, resting)

    async def _send_back(self, agent: Agent, reply: Line) -> None:
        """The bank returns a refund that was executed; the service hears of it from the gateway."""
        if reply["status"] != "executed":
            return
        await self.wire.sandbox("POST", "gateway", f"/_refunds/{reply['result']['refund_id']}", {"status": "failed"})
        await until_it_rests(agent, reply, _PATIENCE, SETTLED - {"executed"})

    async def sweep(self) -> None:
        """Send again whatever was sent; wait, with the people at work, until nothing of it is on its way.

        What waits for a person who does nothing, or for the service's own look at a lost answer, is left alone.
        """
        known = self._agents()
        nobody = {case.agent.run_id for case in self.cases.values() if case.deciding == "nobody"}
        resting = SETTLED | {"outcome_unknown"}
        again: dict[str, tuple[Agent, Call]] = {}
        for line in lines(self.folder.agents):
            if line["kind"] == "sent" and not line["dry_run"] and "idempotency_key" in line["arguments"]:
                call = Call(line["tool"], line["arguments"])
                again[json.dumps(line["arguments"], sort_keys=True)] = known[line["run_id"]], call
        async with self._people():
            await _in_turn(
                self._send(agent, call, 0.5 if agent.run_id in nobody else _LAST_PATIENCE, resting)
                for agent, call in again.values()
            )
            while self.people.waiting:
                await asyncio.sleep(0.3)

    async def look(self) -> None:
        """Ask how every call stands that was not settled when it was last told of."""
        known, last = self._agents(), dict[str, Line]()
        for line in lines(self.folder.agents):
            if line["kind"] in ("told", "looked") and not line["reply"].get("dry_run"):
                last[line["reply"]["request_id"]] = line
        unsettled = [each for each in last.values() if each["reply"]["status"] not in SETTLED]
        await _in_turn(known[each["run_id"]].progress(each["reply"]["request_id"]) for each in unsettled)

    def _agents(self) -> dict[str, Agent]:
        return {run["run_id"]: self._know(run) for run in lines(self.folder.runs)}

    @contextlib.asynccontextmanager
    async def _people(self) -> AsyncGenerator[None]:
        self.people.waiting = 1  # until they have looked
        working = asyncio.create_task(self.people.work())
        try:
            yield
        finally:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working


async def _in_turn(work: Iterator[Awaitable[object]]) -> None:
    """Do all of it, a few at a time; many of them only wait."""
    slots = asyncio.Semaphore(4 * AGENTS)

    async def one(each: Awaitable[object]) -> None:
        async with slots:
            await each

    async with asyncio.TaskGroup() as tasks:
        for each in itertools.chain(work):
            tasks.create_task(one(each))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.load", description=__doc__)
    parser.add_argument("phase", choices=["run", "sweep", "look"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()

    async def play() -> None:
        load = Load.of(Folder(options.folder))
        await load.wire.begin()
        match options.phase:
            case "run":
                await load.run(options.seed, options.calls, options.seconds)
            case "sweep":
                await load.sweep()
            case _:
                await load.look()

    asyncio.run(play())


if __name__ == "__main__":
    main()
