"""Telling clients that the tools of their run are others now: its phase changed.

Nothing is kept of who listens: what a run is offered is read from the ledger, whichever process changed it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import contextmanager

from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.types import SubscriptionFilter, SubscriptionsListenRequestParams, SubscriptionsListenResult
from sse_starlette import EventSourceResponse
from sse_starlette.sse import AppStatus
from starlette.requests import Request

from api.authentication import authenticate
from api.context import Context
from api.mcp.answering import Caller, RequestContext, caller, or_error
from api.offering import offered
from api.problems import Refused, refuse
from ledger.principals import Principal
from schemas.codes import Code
from schemas.replies import Explanation

_LOOK_SECONDS = 2.0
_MOST, _MOST_OF_A_RUN = 1000, 8
_RETRY_SECONDS = 60
_CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'


class Listeners:
    """Those of this process, and how many there may be."""

    def __init__(self, look_seconds: float = _LOOK_SECONDS) -> None:
        self._by_run: Counter[str] = Counter()
        self._look_seconds = look_seconds

    async def listen(self, ctx: RequestContext, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """`subscriptions/listen` of 2026-07-28, for the list of tools alone; ends with the token."""
        by = caller(ctx)
        return await or_error(by, self._listen(ctx, by, params))

    async def _listen(
        self, ctx: RequestContext, by: Caller, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        wanted = SubscriptionFilter(tools_list_changed=params.notifications.tools_list_changed)
        bus = InMemorySubscriptionBus()
        handler = ListenHandler(bus)

        async def publish() -> None:
            try:
                async for _ in self._changes(by.request, by.services, by.run):
                    await bus.publish(ToolsListChanged())
            finally:
                handler.close()

        with self.place(by.run):
            publishing = asyncio.create_task(publish())
            try:
                return await handler(ctx, params.model_copy(update={"notifications": wanted}))
            finally:
                publishing.cancel()
                await asyncio.gather(publishing, return_exceptions=True)

    def stream(self, request: Request, services: Context, run: Principal) -> EventSourceResponse:
        """The standing stream of earlier revisions (`GET /mcp`). Raises Refused."""

        async def events() -> AsyncIterator[dict[str, str]]:
            with self.place(run):
                async for _ in self._changes(request, services, run):
                    yield {"event": "message", "data": _CHANGED}

        self._check(run)
        return EventSourceResponse(events())

    async def _changes(self, request: Request, services: Context, run: Principal) -> AsyncGenerator[None]:
        """Something whenever the run is offered others; ends when its token does, or the process."""
        before = await _names(services, run)
        while not AppStatus.should_exit:
            await asyncio.sleep(self._look_seconds)
            try:
                run = await authenticate(request, services, "mcp", "run")
            except Refused:
                return
            now = await _names(services, run)
            if now != before:
                before = now
                yield

    @contextmanager
    def place(self, run: Principal) -> Generator[None]:
        """One of the places there are. Raises Refused without one."""
        self._check(run)
        name = run.name if run.binding is None else run.binding.run_id
        self._by_run[name] += 1
        try:
            yield
        finally:
            self._by_run[name] -= 1
            if not self._by_run[name]:
                del self._by_run[name]

    def _check(self, run: Principal) -> None:
        name = run.name if run.binding is None else run.binding.run_id
        if self._by_run[name] >= _MOST_OF_A_RUN or self._by_run.total() >= _MOST:
            raise refuse(
                Code.TEMPORARY_FAILURE,
                Explanation(retry_after_seconds=_RETRY_SECONDS),
                headers={"Retry-After": str(_RETRY_SECONDS)},
            )


async def _names(services: Context, run: Principal) -> list[str]:
    return [entry.manifest.name for entry in await offered(services, run)]
