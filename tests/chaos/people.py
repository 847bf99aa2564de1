"""The approvers: two people who decide what waits, alone, against each other, twice, and against the agent."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.chaos.journal import Journal
from tests.chaos.plan import Deciding
from tests.chaos.wire import Agent, Answer, Wire, pause

Approval = dict[str, Any]
Verdict = Literal["approve", "deny"]


@dataclass(frozen=True)
class Case:
    """What people do about a customer's calls, and the agent that may take them back."""

    deciding: Deciding
    agent: Agent


@dataclass
class People:
    """Decide what waits, by the customer whose it is. `cases` grows while they work."""

    wire: Wire
    journal: Journal
    cases: Mapping[str, Case]
    waiting: int = 0
    _begun: set[str] = field(default_factory=set[str])

    async def work(self) -> None:
        """Look into the inbox and decide, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                undecided = [each for each in await self._inbox() if self._deciding(each) not in (None, "nobody")]
                self.waiting = len(undecided)
                for approval in undecided:
                    if approval["approval_id"] not in self._begun:
                        self._begun.add(approval["approval_id"])
                        tasks.create_task(self._decide(approval))
                await asyncio.sleep(0.3)

    async def _inbox(self) -> list[Approval]:
        found: list[Approval] = []
        cursor = ""
        while True:
            answer = await self.wire.once("GET", f"/v1/approvals?limit=500{cursor}", self._token(0))
            if isinstance(answer, str) or answer.status != 200:
                await pause()
                continue
            found += answer.body["approvals"]
            if answer.body["next_cursor"] is None:
                return found
            cursor = f"&cursor={answer.body['next_cursor']}"

    def _deciding(self, approval: Approval) -> Deciding | None:
        case = self.cases.get(approval["customer_id"])
        return case.deciding if case else None

    async def _decide(self, approval: Approval) -> None:
        agent = self.cases[approval["customer_id"]].agent
        match self._deciding(approval):
            case "deny":
                await self._post(approval, 0, "deny")
            case "both":
                await asyncio.gather(self._post(approval, 0, "approve"), self._post(approval, 1, "deny"))
            case "twice":
                await asyncio.gather(*(self._post(approval, who, "approve") for who in (0, 0, 1)))
            case "withdraw":
                await asyncio.gather(self._approve(approval), agent.cancel(approval["request_id"]))
            case _:
                await self._approve(approval)

    async def _approve(self, approval: Approval) -> None:
        """By as many people as it takes."""
        await asyncio.gather(*(self._post(approval, who, "approve") for who in range(approval["people"])))

    async def _post(self, approval: Approval, who: int, verdict: Verdict) -> None:
        """Decide until it is answered: a decision whose answer was lost may or may not have been taken."""
        said = {
            "approval_id": approval["approval_id"],
            "request_id": approval["request_id"],
            "approver": self.wire.info["approvers"][who]["username"],
            "verdict": verdict,
        }
        body = {"decision": verdict, "action_digest": approval["action_digest"], "reason": "an example reason"}
        while True:
            self.journal.write("decision", **said)
            path = f"/v1/approvals/{approval['approval_id']}/decision"
            answer = await self.wire.once("POST", path, self._token(who), body)
            if isinstance(answer, Answer):
                self.journal.write("decision told", **said, http=answer.status, reply=answer.body)
                if answer.status < 500:
                    return
            await pause()

    def _token(self, who: int) -> str:
        return self.wire.info["approvers"][who]["token"]
