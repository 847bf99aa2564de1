"""Plays recorded runs against the API and compares what it answers with what was expected."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runtime.cli.runs_file import Line
from runtime.demo.client import AgentApi, ApiProblem

AGENT_ID, ACTOR_ID = "player", "play"


class Said(NamedTuple):
    status: str
    code: str


@dataclass(frozen=True, slots=True)
class Result:
    """One call: its line in the file, its place in that line (from 1), what was expected and what came."""

    line: int
    call: int
    tool: str
    expected: Said
    got: Said
    message: str
    request_id: str

    @property
    def agrees(self) -> bool:
        return self.expected == self.got


class Row(NamedTuple):
    """How often an answer of a tool was expected, and how often it came."""

    tool: str
    status: str
    code: str
    expected: int
    got: int


async def play(
    api: AgentApi, lines: Sequence[Line], *, concurrency: int, wait_seconds: int, played: Callable[[int], None]
) -> list[Result]:
    """The results in the order of the file; `played` is told after each line how many calls it had.

    Lines start in the order of the file, at most `concurrency` at a time, and those of one customer never overlap: what
    a customer's earlier refunds allow depends on their order. Raises ApiProblem when a line cannot be played.
    """
    queue, results = iter(lines), list[Result]()
    customers: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def worker() -> None:
        for line in queue:
            async with customers[line.run.customer_id]:  # first come, first served
                results.extend(await _play_line(api, line, wait_seconds))
            played(len(line.run.calls))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    except* ApiProblem as problems:
        first = problems.exceptions[0]
        raise ApiProblem(str(first)) from None
    return sorted(results, key=lambda result: (result.line, result.call))


async def _play_line(api: AgentApi, line: Line, wait_seconds: int) -> list[Result]:
    run = line.run
    tools = list(dict.fromkeys(call.tool for call in run.calls))
    results: list[Result] = []
    try:
        token = await api.open_run(agent_id=AGENT_ID, actor_id=ACTOR_ID, customer_id=run.customer_id, tools=tools)
        for n, call in enumerate(run.calls, 1):
            answer = await api.call(token, call.tool, call.arguments, wait_seconds=wait_seconds)
            expected, got = Said(call.expect.status, call.expect.code.value), Said(answer.status, answer.code)
            results.append(Result(line.number, n, call.tool, expected, got, answer.message, answer.request_id))
    except ApiProblem as problem:
        raise ApiProblem(f"line {line.number}: {problem}") from None
    return results


def summary(results: Sequence[Result]) -> list[Row]:
    """Pure. Every answer that was expected or came, by tool."""
    expected = Counter((result.tool, result.expected) for result in results)
    got = Counter((result.tool, result.got) for result in results)
    return [
        Row(tool, said.status, said.code, expected[tool, said], got[tool, said])
        for tool, said in sorted(expected | got)
    ]


def differing(results: Sequence[Result]) -> list[Result]:
    """Pure. Those that answered something else than expected."""
    return [result for result in results if not result.agrees]
