"""A service that keeps one call per key, and parks every refund until it is decided."""

import json
from dataclasses import dataclass, field
from typing import Any

import httpx
from counterseal_client import AsyncCounterseal, AsyncRun, Counterseal, Patience, Run

from tests.client.played import listed, reply

TOKEN, SCOPE = "a-run-token", "conversation-1"


@dataclass
class FakeService:
    """`called` has the body of each call, in their order."""

    called: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    decided: bool = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/tools":
            return _response(listed())
        if request.method == "POST":
            self.called.append(json.loads(request.content))
        if self.decided:
            return _response(reply(message="Done."))
        return _response(reply("PENDING_APPROVAL", "pending_approval", http=202, action="wait", message="It waits."))

    @property
    def keys(self) -> list[str]:
        return [call["arguments"]["idempotency_key"] for call in self.called]

    def blocking(self) -> Run:
        """A run as a process has it that was just started."""
        client = Counterseal("http://fake", patience=Patience(tries=1), transport=httpx.MockTransport(self))
        return client.run(TOKEN, scope=SCOPE)

    def asynchronous(self) -> AsyncRun:
        client = AsyncCounterseal("http://fake", patience=Patience(tries=1), transport=httpx.MockTransport(self))
        return client.run(TOKEN, scope=SCOPE)


def _response(answer: Any) -> httpx.Response:
    return httpx.Response(answer.http_status, content=answer.body)
