"""The client for code that blocks. Safe to use from several threads."""

import time
from collections.abc import Callable, Sequence
from functools import wraps
from ssl import SSLContext
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

import httpx

from counterseal_client import core
from counterseal_client.core import AnyRun, Flow, Patience, RunCore
from counterseal_client.transport import PLAIN, grow, is_plain, no_answer
from counterseal_client.wire import Answer, NoAnswer, Request, base_url

P = ParamSpec("P")
T = TypeVar("T")


class Transport:
    """Makes the requests of flows, one after the other."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self.close = http.close

    def drive(self, flow: Flow[T]) -> T:
        try:
            made = next(flow)
            while True:
                time.sleep(made.pause)
                made = flow.send(self._exchange(made))
        except StopIteration as ended:
            return ended.value

    def _exchange(self, made: Request) -> Answer | NoAnswer:
        """httpx bounds each read, and this the body as a whole. The service's headers are the only part of an answer
        that somebody could trickle for longer."""
        ends, body = time.monotonic() + made.seconds, bytearray()
        try:
            with self._http.stream(
                made.method, made.path, headers={**made.headers, **PLAIN}, content=made.body, timeout=made.seconds
            ) as answer:
                if not is_plain(answer):
                    return Answer(answer.status_code, b"")
                for chunk in answer.iter_bytes():
                    grow(body, chunk, answer.status_code)
                    if time.monotonic() > ends:
                        return NoAnswer("TimeoutError", sent=True)
                return Answer(answer.status_code, bytes(body))
        except httpx.HTTPError as problem:
            return no_answer(problem)


def _blocking(flow: Callable[Concatenate[RunCore, P], Flow[T]]) -> Callable[Concatenate["Run", P], T]:
    @wraps(flow)
    def method(run: "Run", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run.transport.drive(flow(run.core, *args, **kwargs))

    return method


class Run(AnyRun):
    """What an agent does in one run. Made by `Counterseal.open_run` or `Counterseal.run`."""

    def __init__(self, core: RunCore, transport: Transport) -> None:
        super().__init__(core)
        self.transport = transport

    tools = _blocking(RunCore.tools)
    call = _blocking(RunCore.call)
    status = _blocking(RunCore.status)
    wait = _blocking(RunCore.wait)
    withdraw = _blocking(RunCore.withdraw)


class Counterseal:
    """The service at the URL `api`. Use it as a context manager, or `close` it.

    `service_token` is needed to open runs, not to go on with one. Proxies and certificates from the environment are
    used with `trust_env` only. Raises Misuse.
    """

    def __init__(
        self,
        api: str,
        service_token: str | None = None,
        *,
        patience: Patience | None = None,
        trust_env: bool = False,
        verify: SSLContext | bool = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._service_token = service_token
        self._patience = patience or Patience()
        self._transport = Transport(
            httpx.Client(base_url=base_url(api), trust_env=trust_env, verify=verify, transport=transport)
        )

    def open_run(
        self,
        *,
        agent_id: str,
        actor_id: str,
        customer_id: str,
        tools: Sequence[str],
        scope: str | None = None,
        expires_in_seconds: int = 3600,
    ) -> Run:
        """Bind a run to an agent, the person it acts for and a customer. `scope`: see `step_key`.

        A run that the service refuses to open is returned as well: `refusal` says why, and every call on it is answered
        with that. Raises Misuse, Unreachable, UnexpectedAnswer.
        """
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
        return Run(self._transport.drive(opening), self._transport)

    def run(self, run_token: str, *, scope: str | None = None) -> Run:
        """Go on with a run that was opened elsewhere."""
        return Run(RunCore(run_token, self._patience, scope), self._transport)

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
