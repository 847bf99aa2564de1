"""The demo agent: a scripted one. No model is asked; it plays `script.SCRIPT` call by call against the real API."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import httpx
from pydantic import JsonValue

from ledger.calls import UnknownCall
from ledger.ledger import Ledger
from ledger.records import CallRecord
from runtime.demo.client import AgentApi, Answer
from runtime.demo.script import SCRIPT, Step
from runtime.demo.world import World

AGENT_ID, ACTOR_ID = "demo-agent", "demo-script"
_SETTLE_SECONDS = 60
_UNSETTLED = ("in_progress", "outcome_unknown")


@dataclass(frozen=True, slots=True)
class Played:
    """A step as it went. `answer` is how the call stood when it had settled or parked, `ended` how it stands now.

    `subject` is the order and `payment` the payment it was about. `verdict`, `because` and `events` (their types, in
    order) are the ledger's; `because` is the policy's sentence.
    `decided_by` says who decided it and how, empty for nobody.
    """

    step: Step
    subject: str
    payment: str
    answer: Answer
    ended: Answer
    verdict: str
    because: str
    events: tuple[str, ...]
    decided_by: str = ""

    @property
    def doing(self) -> str:
        """The call in plain words, e.g. `Refund 49.99 USD of ord_…`."""
        return self.step.doing.format(order=self.subject)

    @property
    def parked(self) -> bool:
        return self.ended.status == "pending_approval" and not self.step.dry_run


class DemoAgent:
    """Plays the script for the customers of one `world`; what it sends is decided by the real service."""

    def __init__(self, api: AgentApi, gateway: httpx.AsyncClient, ledger: Ledger, world: World) -> None:
        self._api = api
        self._gateway = gateway
        self._ledger = ledger
        self._world = world
        self._run_tokens: dict[str, str] = {}
        self._keys = {step.name: os.urandom(16).hex() for step in SCRIPT}
        # Another one each time: what agents did in the last hour counts.
        self._agent_id = f"{AGENT_ID}-{os.urandom(4).hex()}"

    async def play(self, step: Step, note: Callable[[str], None]) -> Played:
        """Make the step's call and wait until it has settled or parked. `note` is told what happens meanwhile.

        Raises ApiProblem, and httpx.HTTPError when the sandbox does not answer.
        """
        payment = self._world.payment_of(step.order) if step.order else ""
        if step.fault is not None:
            fault = {"operation": "refund", "times": 1, "do": step.fault, "payment_id": payment}
            (await self._gateway.post("/_faults", json=[fault])).raise_for_status()
        token = await self._token_for(step.customer)
        answer = await self._api.call(token, step.tool, self._arguments(step), dry_run=step.dry_run)
        if answer.status == "outcome_unknown":
            note("the answer was lost; the service looks it up")
        answer = await self._settled(token, answer)
        subject = self._world.order_ids[step.order] if step.order else ""
        return await self._with_ledger(Played(step, subject, payment, answer, answer, "", "", ()))

    async def follow(self, played: Played, decided_by: str) -> Played:
        """The step after a person decided it, once the call has settled. Raises ApiProblem."""
        token = await self._token_for(played.step.customer)
        ended = await self._settled(token, await self._api.progress(token, played.ended.request_id))
        return await self._with_ledger(replace(played, ended=ended, decided_by=decided_by))

    async def _token_for(self, customer: str) -> str:
        """One run for each customer: a run is bound to one, whatever the arguments of its calls say."""
        if customer not in self._run_tokens:
            tools = sorted({step.tool for step in SCRIPT if step.customer == customer})
            self._run_tokens[customer] = await self._api.open_run(
                agent_id=self._agent_id, actor_id=ACTOR_ID, customer_id=self._world.customer_ids[customer], tools=tools
            )
        return self._run_tokens[customer]

    def _arguments(self, step: Step) -> dict[str, JsonValue]:
        arguments = dict(step.arguments)
        if step.order is not None:
            arguments["order_id"] = self._world.order_ids[step.order]
            arguments["idempotency_key"] = self._keys[step.same_key_as or step.name]
        return arguments

    async def _settled(self, token: str, answer: Answer) -> Answer:
        until = time.monotonic() + _SETTLE_SECONDS
        while answer.status in _UNSETTLED and time.monotonic() < until:
            answer = await self._api.progress(token, answer.request_id, wait_seconds=5)
        return answer

    async def _with_ledger(self, played: Played) -> Played:
        """What the ledger says about the call. A refused repeat, a dry run and invalid input are not in it."""
        answer = played.ended
        record = await self._record(answer.request_id)
        if record is None:
            return replace(played, verdict=answer.decision or ("refuse" if answer.status == "refused" else ""))
        decision = record.details.decision
        events = tuple(row.type for row, _ in await self._ledger.calls.events(record.request_id))
        because = decision.because if decision else ""
        return replace(played, verdict=record.verdict or "", because=because, events=events)

    async def _record(self, request_id: str) -> CallRecord | None:
        try:
            return await self._ledger.calls.read(request_id)
        except UnknownCall:
            return None
