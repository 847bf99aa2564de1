"""The client for asyncio."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import wraps
from ssl import SSLContext
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from counterseal_client import core
from counterseal_client.core import AnyRun, Flow, Patience, RunCore
from counterseal_client.transport import PLAIN, grow, is_plain, no_answer
from counterseal_client.wire import Answer, NoAnswer, Request, base_url

P = ParamSpec("P")
T = TypeVar("T")


class Transport:
    """Makes the requests of flows, one after the other."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.close: Callable[[], Awaitable[None]] = http.aclose

    async def drive(self, flow: Flow[T]) -> T:
        try:
            made = next(flow)
            while True:
                await asyncio.sleep(made.pause)
                made = flow.send(await self._exchange(made))
        except StopIteration as ended:
            return ended.value

    async def _exchange(self, made: Request) -> Answer | NoAnswer:
        """httpx bounds each read, and this the exchange as a whole."""
        body = bytearray()
        try:
            async with (
                asyncio.timeout(made.seconds),
                self._http.stream(
                    made.method, made.path, headers={**made.headers, **PLAIN}, content=made.body, timeout=made.seconds
                ) as answer,
            ):
                if not is_plain(answer):
                    return Answer(answer.status_code, b"")
                async for chunk in answer.aiter_bytes():
                    grow(body, chunk, answer.status_code)
                return Answer(answer.status_code, bytes(body))
        except (httpx.HTTPError, TimeoutError) as problem:
            return no_answer(problem)


def _asynchronous(
    flow: Callable[Concatenate[RunCore, P], Flow[T]],
) -> Callable[Concatenate["AsyncRun", P], Coroutine[Any, Any, T]]:
    @wraps(flow)
    async def method(run: "AsyncRun", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await run.transport.drive(flow(run.core, *args, **kwargs))

    return method


class AsyncRun(AnyRun):
    """What an agent does in one run. Made by `AsyncCounterseal.open_run` or `AsyncCounterseal.run`."""

    def __init__(self, core: RunCore, transport: Transport) -> None:
        super().__init__(core)
        self.transport = transport

    tools = _asynchronous(RunCore.tools)
    call = _asynchronous(RunCore.call)
    status = _asynchronous(RunCore.status)
    wait = _asynchronous(RunCore.wait)
    withdraw = _asynchronous(RunCore.withdraw)


class AsyncCounterseal:
    """As `Counterseal`, for asyncio."""

    def __init__(
        self,
        api: str,
        service_token: str | None = None,
        *,
        patience: Patience | None = None,
        trust_env: bool = False,
        verify: SSLContext | bool = True,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._service_token = service_token
        self._patience = patience or Patience()
        self._transport = Transport(
            httpx.AsyncClient(base_url=base_url(api), trust_env=trust_env, verify=verify, transport=transport)
        )

    async def open_run(
        self,
        *,
        agent_id: str,
        actor_id: str,
        customer_id: str,
        tools: Sequence[str],
        scope: str | None = None,
        expires_in_seconds: int = 3600,
    ) -> AsyncRun:
        """As `Counterseal.open_run`."""
        opening = core.open_run(
            self._service_token,
            self._patience,
            agent_id=agent_id,
            actor_id=actor_id,
            customer_id=customer_id,
            tools=tools,
            scope=scope,
            expires_in_seconds=expires_in_seconds,
        )
        return AsyncRun(await self._transport.drive(opening), self._transport)

    def run(self, run_token: str, *, scope: str | None = None) -> AsyncRun:
        """As `Counterseal.run`."""
        return AsyncRun(RunCore(run_token, self._patience, scope), self._transport)

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
