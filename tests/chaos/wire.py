"""Speaking to the stack while it is broken: whoever does not get an answer asks again, and says so in the log."""

import asyncio
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.chaos.journal import Journal

_AGAIN_SECONDS = (0.5, 4.0)


@dataclass(frozen=True)
class Answer:
    """An HTTP answer with a JSON object."""

    status: int
    body: dict[str, Any]


@dataclass
class Wire:
    """A client of the stack whose ready file this is. The stack may come back elsewhere, so it is read again."""

    ready_file: Path
    http: httpx.AsyncClient = field(
        default_factory=lambda: httpx.AsyncClient(trust_env=False, verify=False, timeout=40)
    )
    _info: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def info(self) -> dict[str, Any]:
        """The ready file, as it was last there: it is gone while the stack is down."""
        if self.ready_file.exists():
            self._info = json.loads(self.ready_file.read_text())
        return self._info

    async def begin(self) -> None:
        """Wait until there is a ready file."""
        while not self.info:
            await pause()

    async def once(self, method: str, path: str, token: str, body: object = None) -> Answer | str:
        """One request to the API: its answer, or in one word why there is none."""
        headers = {"Authorization": f"Bearer {token}"}
        try:
            response = await self.http.request(method, self.info["api"] + path, headers=headers, json=body)
            return Answer(response.status_code, response.json())
        except (httpx.HTTPError, ValueError, KeyError) as problem:
            return type(problem).__name__

    async def insist(self, method: str, path: str, token: str, body: object = None) -> Answer:
        """The same until it is answered by something other than a failure of the service."""
        while True:
            answer = await self.once(method, path, token, body)
            if isinstance(answer, Answer) and answer.status < 500:
                return answer
            await pause()

    async def sandbox(self, method: str, which: str, path: str, body: object = None) -> Any:
        """A request to the sandbox's control surface (`which`: gateway, store), until it works."""
        while True:
            try:
                response = await self.http.request(method, self.info["sandbox"][which] + path, json=body)
                return response.raise_for_status().json()
            except (httpx.TransportError, KeyError):
                await pause()


async def pause() -> None:
    await asyncio.sleep(random.uniform(*_AGAIN_SECONDS))


@dataclass(frozen=True)
class Agent:
    """An agent in a run: sends calls, and sends them again under the same key until it is told something."""

    wire: Wire
    journal: Journal
    run_id: str
    token: str
    wait_seconds: int = 5

    async def call(self, tool: str, arguments: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Send a call: the reply object. A 503 that says that the same call may be sent again is obeyed."""
        body = {"tool": tool, "arguments": arguments, "dry_run": dry_run}
        while True:
            self.journal.write("sent", run_id=self.run_id, **body)
            path = f"/v1/tool-calls?wait_seconds={self.wait_seconds}"
            answer = await self.wire.once("POST", path, self.token, body)
            if isinstance(answer, str):
                self.journal.write("lost", run_id=self.run_id, **body, problem=answer)
            else:
                reply = answer.body
                self.journal.write("told", run_id=self.run_id, **body, http=answer.status, reply=reply)
                if not reply.get("retryable"):
                    return reply
            await pause()

    async def progress(self, request_id: str) -> dict[str, Any] | None:
        """Ask how the call stands; None when there was no answer."""
        path = f"/v1/tool-calls/{request_id}?wait_seconds={self.wait_seconds}"
        answer = await self.wire.once("GET", path, self.token)
        if isinstance(answer, str) or answer.status >= 500:
            return None
        self.journal.write("looked", run_id=self.run_id, request_id=request_id, http=answer.status, reply=answer.body)
        return answer.body

    async def cancel(self, request_id: str) -> None:
        """Take a parked call back."""
        path = f"/v1/tool-calls/{request_id}/cancel"
        self.journal.write("cancel", request_id=request_id)
        answer = await self.wire.insist("POST", path, self.token)
        self.journal.write("cancel told", request_id=request_id, http=answer.status, reply=answer.body)


SETTLED = frozenset({"executed", "refused", "denied", "expired", "cancelled", "failed"})


async def until_it_rests(
    agent: Agent, reply: dict[str, Any], seconds: float, resting: frozenset[str] = SETTLED
) -> dict[str, Any]:
    """Ask on until the call has settled (or stands as `resting` says), for as long as the agent has patience: what it
    was told last."""
    try:
        async with asyncio.timeout(seconds):
            while reply["status"] not in resting and not reply.get("dry_run"):
                looked = await agent.progress(reply["request_id"])
                reply = looked or reply
                await asyncio.sleep(0.3)
    except TimeoutError:
        pass
    return reply
