"""One performance of the demo on a running stack: play, let people decide, look at what really happened."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx

from ledger.ledger import Ledger
from runtime.demo.agent import DemoAgent, Played
from runtime.demo.approver import ApprovalsApi, WebForm
from runtime.demo.checks import differences
from runtime.demo.client import AgentApi, ApiProblem, agent_client
from runtime.demo.script import SCRIPT
from runtime.demo.world import World
from runtime.stack.connection import StackInfo

Show = Callable[[Sequence[Played], str], None]
_SANDBOX_SECONDS = 10


@dataclass
class Performance:
    """The demo on one stack. `show` is given the steps so far and what happens now, whenever either changes."""

    info: StackInfo
    agent: DemoAgent
    http: httpx.AsyncClient
    gateway: httpx.AsyncClient
    show: Show

    async def play(self) -> list[Played]:
        """Play the script, one call after the other. Raises ApiProblem."""
        played: list[Played] = []
        for n, step in enumerate(SCRIPT, 1):
            doing = f"call {n} of {len(SCRIPT)}"
            self.show(played, doing)
            played.append(await self.agent.play(step, lambda said, doing=doing: self.show(played, f"{doing}: {said}")))
        self.show(played, "")
        return played

    async def decide(self, played: Sequence[Played]) -> list[Played]:
        """Let the stack's approvers decide what is parked, and wait for the outcomes. Raises ApiProblem."""
        first, second = self.info.approvers[0], self.info.approvers[-1]
        inbox = ApprovalsApi(self.http, second.token)
        waiting = await inbox.waiting()
        after = list(played)
        for n, each in enumerate(played):
            human = each.step.then
            if human is None or not each.parked:
                continue
            self.show(after, f"a person looks at: {each.doing}")
            approval = waiting.get(each.ended.request_id)
            if approval is None:
                raise ApiProblem(f"{each.doing}: it is parked and in nobody's inbox")
            done = "approved" if human.verdict == "approve" else "denied"
            if human.through == "form":
                async with WebForm.signed_in(self.info.api, first.username, first.password) as form:
                    await form.decide(approval["approval_id"], human.verdict, human.reason)
                by = f"{done} by {first.username} on the web form"
            else:
                await inbox.decide(approval, human.verdict, human.reason)
                by = f"{done} by {second.username}"
            after[n] = await self.agent.follow(each, by)
        self.show(after, "")
        return after

    async def differences(self, played: Sequence[Played]) -> list[str]:
        """What is not as the script says, by the replies, the ledger and the gateway's own record."""
        effects = await _record(self.gateway, "effects")
        return differences(played, effects, await _record(self.gateway, "requests"))


@asynccontextmanager
async def performance(info: StackInfo, ledger: Ledger, show: Show) -> AsyncGenerator[Performance]:
    """The demo on a stack, with a fresh world in its store. Raises ApiProblem when the sandbox does not answer."""
    world = World.fresh([step.order for step in SCRIPT if step.order], datetime.now(UTC).replace(microsecond=0))
    async with (
        agent_client(info.api) as http,
        _sandbox(info.sandbox.gateway) as gateway,
        _sandbox(info.sandbox.store) as store,
    ):
        try:
            await world.put_into(store)
            agent = DemoAgent(AgentApi(http, info.service_token), gateway, ledger, world)
            yield Performance(info, agent, http, gateway, show)
        except httpx.HTTPError as error:
            raise ApiProblem(f"the sandbox does not answer ({type(error).__name__})") from None


def _sandbox(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, trust_env=False, follow_redirects=False, timeout=_SANDBOX_SECONDS)


async def _record(gateway: httpx.AsyncClient, name: str) -> list[dict[str, Any]]:
    response = await gateway.get(f"/_{name}")
    response.raise_for_status()
    return response.json()[name]
