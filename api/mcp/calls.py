"""`tools/list` and `tools/call`: the tools that a run has now, and calls of them."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, TypeVar, cast

from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, Tool
from pydantic import JsonValue

from api.asking import ask, checked, progress, withdraw
from api.mcp.answering import Caller, RequestContext, caller, noted, or_error
from api.mcp.asked import said_in, with_key
from api.mcp.tasks import created, takes_tasks
from api.mcp.tools import CHECK, WITHDRAW, CheckCall, Definitions, WithdrawCall, result_of
from api.offering import offered
from api.problems import refuse
from schemas.codes import Code
from schemas.replies import Explanation, Reply
from tools.arguments import validate
from tools.protocol import Arguments, Refusal

_FIRST_WORD_SECONDS, _LONGEST_SILENCE_SECONDS = 0.5, 5.0

T = TypeVar("T")
A = TypeVar("A", bound=Arguments)


class Calls:
    """Handlers of the two methods; definitions of tools are kept between requests."""

    def __init__(self) -> None:
        self._definitions = Definitions()

    def input_schema(self, name: str) -> dict[str, Any] | None:
        return self._definitions.input_schema(name)

    async def listed(self, ctx: RequestContext, params: PaginatedRequestParams | None) -> ListToolsResult:
        """All of them, on one page."""
        by = caller(ctx)
        cursor = None if params is None else params.cursor
        return ListToolsResult(tools=await or_error(by, self._tools(by, cursor)))

    async def _tools(self, by: Caller, cursor: str | None) -> list[Tool]:
        if cursor is not None:
            problem = "there is one page of tools, and no cursor"
            raise refuse(Code.INVALID_INPUT, Explanation(values={"problem": problem}))
        return [*(self._definitions.of(entry) for entry in await offered(by.services, by.run)), *_own(by)]

    async def call(self, ctx: RequestContext, params: CallToolRequestParams) -> CallToolResult | dict[str, Any]:
        """Whatever becomes of it is a result: its reply object, or a task where the client takes one and the call
        waits."""
        by = caller(ctx)
        try:
            arguments = cast("dict[str, JsonValue]", params.arguments or {})
            if params.name in [tool.name for tool in _own(by)]:
                return result_of(await reporting(ctx, _own_call(by, params.name, arguments)))
            reply = await self.reply(ctx, by, params.name, arguments)
            task = await created(by, reply) if takes_tasks(ctx) else None
            return result_of(reply) if task is None else task
        except Exception as problem:  # noqa: BLE001 - the SDK would answer with its text
            return result_of(await noted(by, problem))

    async def reply(
        self, ctx: RequestContext, by: Caller, name: str, arguments: dict[str, JsonValue], wait: float | None = None
    ) -> Reply:
        """The reply of a call of one of the run's tools. Raises Refused."""
        said = said_in(ctx.meta)
        entry = by.services.catalog.get(name)
        asked = await checked(by.services, by.run, name, with_key(entry, arguments, said))
        by.request.state.input_validated = True
        self._definitions.of(asked.entry)
        wait = said.wait_seconds if wait is None else wait
        return await reporting(ctx, ask(by.services, by.run, asked, wait, dry=said.dry_run))


def _own(by: Caller) -> list[Tool]:
    """What is offered beside the run's tools, where one of them may have to wait."""
    entries = by.services.catalog.all()
    writes = any(entry.manifest.writes and entry.offered_to(by.run.tools) for entry in entries)
    return [CHECK, WITHDRAW] if writes else []


async def _own_call(by: Caller, name: str, arguments: dict[str, JsonValue]) -> Reply:
    if name == CHECK.name:
        check = _valid(CheckCall, arguments)
        return (await progress(by.services, by.run, check.request_id, check.wait_seconds)).reply()
    asked = _valid(WithdrawCall, arguments)
    return (await withdraw(by.services, by.run, asked.request_id)).reply()


def _valid(model: type[A], arguments: dict[str, JsonValue]) -> A:
    found = validate(model, arguments)
    if isinstance(found, Refusal):
        raise refuse(found.code, found.explanation)
    return found


async def reporting(ctx: RequestContext, answer: Awaitable[T]) -> T:
    """The answer; while it takes long, its caller is told so, if that asked for it."""
    if ctx.meta is None or ctx.meta.get("progress_token") is None:
        return await answer
    saying = asyncio.create_task(_say(ctx))
    try:
        return await answer
    finally:
        saying.cancel()
        with suppress(asyncio.CancelledError):
            await saying


async def _say(ctx: RequestContext) -> None:
    waited, pause = 0.0, _FIRST_WORD_SECONDS
    while True:
        await asyncio.sleep(pause)
        waited += pause
        # Who hears it may be gone; that is no failure of the call.
        with suppress(Exception):
            await ctx.session.report_progress(waited, None, "The call is being worked on.")
        pause = min(2 * pause, _LONGEST_SILENCE_SECONDS)
