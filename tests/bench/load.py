"""The load, in a process of its own: requests from standard input, each sent once; what came back, to standard output.

Nothing of the product is imported here: what is measured must not share a process with what measures.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import aiohttp
import uvloop


@dataclass(frozen=True, slots=True)
class Ask:
    """One HTTP request; `body` is sent as JSON, None with GET."""

    url: str
    token: str = ""
    body: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Plan:
    """Which requests, by how many clients that each wait for an answer before the next, and for how long at most.

    `per_second`: begun at this pace instead, by however many clients are free. `bodies`: bring the answers back too.
    """

    asks: Sequence[Ask]
    clients: int = 1
    seconds: float | None = None
    per_second: float | None = None
    bodies: bool = False


@dataclass(frozen=True, slots=True)
class Answers:
    """What came back. Of each request, in order of their ends: when it began (Unix time), how long it took in
    milliseconds, and its HTTP status with `status` of its body. `wall`: seconds from the first to the last."""

    wall: float
    began: list[float]
    took_ms: list[float]
    statuses: list[str]
    bodies: list[Any] = field(default_factory=list[Any])

    @property
    def per_second(self) -> float:
        return len(self.took_ms) / self.wall

    def of(self, status: str) -> int:
        """How many ended so, e.g. `200 executed`."""
        return self.statuses.count(status)


def played(plan: Plan) -> Answers:
    """Have a plan played by another process. Raises RuntimeError when that one fails."""
    finished = subprocess.run(
        [sys.executable, "-m", "tests.bench.load"],
        input=json.dumps(asdict(plan)).encode(),
        stdout=subprocess.PIPE,
        check=False,
    )
    if finished.returncode != 0:
        raise RuntimeError("the load generator failed, see above")
    return Answers(**json.loads(finished.stdout))


async def _play(plan: Plan) -> Answers:
    asks, answers = iter(plan.asks), Answers(0.0, [], [], [])
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=90)) as session:
        begun = time.perf_counter()
        until = begun + plan.seconds if plan.seconds is not None else None
        turns = _turns(plan.per_second, begun)
        await asyncio.gather(*(_client(session, asks, plan, answers, until, turns) for _ in range(plan.clients)))
        wall = time.perf_counter() - begun
    return Answers(wall, answers.began, answers.took_ms, answers.statuses, answers.bodies)


def _turns(per_second: float | None, begun: float) -> Iterator[float]:
    """When the next request may begin."""
    n = 0
    while True:
        yield begun if per_second is None else begun + n / per_second
        n += 1


async def _client(
    session: aiohttp.ClientSession,
    asks: Iterator[Ask],
    plan: Plan,
    answers: Answers,
    until: float | None,
    turns: Iterator[float],
) -> None:
    for ask in asks:
        wait = next(turns) - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        if until is not None and time.perf_counter() >= until:
            return
        began, clock = time.time(), time.perf_counter()
        headers = ask.headers | ({"Authorization": f"Bearer {ask.token}"} if ask.token else {})
        method = "GET" if ask.body is None else "POST"
        try:
            async with session.request(method, ask.url, json=ask.body, headers=headers) as response:
                text = await response.read()
            status = str(response.status)
        except (aiohttp.ClientError, TimeoutError) as problem:
            text, status = b"", type(problem).__name__
        answers.began.append(began)
        answers.took_ms.append((time.perf_counter() - clock) * 1_000)
        body = json.loads(text) if text[:1] == b"{" else None
        answers.statuses.append(f"{status} {_said(body)}".strip())
        if plan.bodies:
            answers.bodies.append(body)


def _said(body: Any) -> str:
    """The `status` of a reply, also of one that came over MCP."""
    match body:
        case {"result": {"structuredContent": {"status": str(status)}}} | {"status": str(status)}:
            return status
        case _:
            return ""


def main() -> None:
    given = json.load(sys.stdin)
    plan = Plan(**given | {"asks": [Ask(**each) for each in given["asks"]]})
    json.dump(asdict(uvloop.run(_play(plan))), sys.stdout)


if __name__ == "__main__":
    main()
