"""What the client does, without doing any I/O: each operation is a generator that yields the requests to be made, is
sent their answers, and returns what came of it. `blocking.py` and `asynchronous.py` drive them."""

import random
import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import BaseModel

from counterseal_client.errors import Misuse, UnexpectedAnswer, Unreachable
from counterseal_client.models import KEY, OpenedRun, Reply, Tool, Tools
from counterseal_client.steps import step_key
from counterseal_client.tracing import trace_headers
from counterseal_client.wire import Answer, NoAnswer, Request, read, request

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
Flow = Generator[Request, Answer | NoAnswer, T]

_KEY = re.compile(r"[0-9a-f]{32}")
_REQUEST_ID = re.compile(r"[A-Za-z0-9_]{1,64}")
_LONGEST_POLL = 60
# What a proxy says that got no answer itself: the request may have arrived.
_OF_PROXIES = (502, 503, 504)
_OF_THE_TOKEN = ("UNAUTHENTICATED", "FORBIDDEN")
# A service that answers at once is not asked in a tight circle.
_BETWEEN_POLLS = 0.5


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how often is tried.

    `timeout`: seconds that one exchange may take beyond what the service is asked to wait. `tries`: exchanges in a row
    without an answer before `Unreachable`. `max_wait`: seconds in all that one operation spends on pauses that replies
    ask for; a reply that asks for a longer one is returned as it is.
    """

    timeout: float = 10.0
    tries: int = 3
    max_wait: float = 30.0
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    jitter: Callable[[], float] = field(default=random.random, repr=False)

    def __post_init__(self) -> None:
        if not (self.timeout > 0 and self.tries >= 1 and self.max_wait >= 0):
            raise Misuse("timeout must be above 0, tries at least 1, and max_wait not below 0")

    def after_failure(self, failures: int) -> float:
        """The pause after so many exchanges in a row without an answer, spread so that callers do not come at once."""
        return min(0.2 * 2 ** (failures - 1), 5.0) * (0.5 + self.jitter())

    def after_reply(self, reply: Reply) -> float:
        """The pause that a reply asks for, and a little more; never none, or one that asks for less than none would be
        obeyed for ever."""
        asked = max(reply.retry_after_seconds or 1, 1)
        return asked + min(0.1 * asked, 2.0) * self.jitter()


def ask(made: Request, model: type[M], patience: Patience, *, repeatable: bool) -> Flow[M | Reply]:
    """The answer, whatever it says. A request without an answer is made again where it is `repeatable` or nothing was
    sent, one that was refused where the reply says so. Raises Unreachable, UnexpectedAnswer."""
    failures, left = 0, patience.max_wait
    while True:
        answer = yield made
        if isinstance(answer, Answer):
            found = _read_or_none(answer, model)
            if found is not None:
                pause = patience.after_reply(found) if isinstance(found, Reply) and found.retryable else None
                if pause is None or pause > left:
                    return found
                failures, left, made = 0, left - pause, replace(made, pause=pause)
                continue
        failures += 1
        sent = not isinstance(answer, NoAnswer) or answer.sent
        if failures >= patience.tries or (sent and not repeatable):
            if isinstance(answer, Answer):
                raise UnexpectedAnswer(answer.http_status, "a proxy answers in its stead")
            raise Unreachable(answer.problem, sent=sent)
        made = replace(made, pause=patience.after_failure(failures))


def _read_or_none(answer: Answer, model: type[M]) -> M | Reply | None:
    """The answer; None where a proxy says that it got none. Raises UnexpectedAnswer."""
    try:
        return read(answer, model)
    except UnexpectedAnswer:
        if answer.http_status in _OF_PROXIES:
            return None
        raise


class RunCore:
    """A run's operations. One that was refused when it was opened answers everything with that refusal."""

    def __init__(
        self, token: str, patience: Patience, scope: str | None, opened: OpenedRun | Reply | None = None
    ) -> None:
        self.token = token
        self.scope = scope
        self.opened = opened if isinstance(opened, OpenedRun) else None
        self.refusal = opened if isinstance(opened, Reply) else None
        self.patience = patience
        self._listed: Tools | None = None

    def tools(self) -> Flow[Tools]:
        """The tools that this run may use now; none, and `refusal`, where the service refuses to say."""
        if self.refusal is not None:
            return Tools(refusal=self.refusal)
        found = yield from ask(self._request("GET", "/v1/tools"), Tools, self.patience, repeatable=True)
        if isinstance(found, Reply):
            return Tools(refusal=found)
        self._listed = found
        return found

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        step: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
        wait_seconds: int = 20,
        traceparent: str | None = None,
    ) -> Flow[Reply]:
        """Call a tool: its reply once it has settled or parked, at the latest after about `wait_seconds` (at most 60).

        A call that writes needs a `step`, from which its idempotency key is derived (`step_key`), or the key itself.
        Doing a step again is the same call and its present state. Reads need neither. `traceparent`: the caller's place
        in a trace; OpenTelemetry's current span where it is not given. Raises Misuse, Unreachable, UnexpectedAnswer.
        """
        if not 0 <= wait_seconds <= _LONGEST_POLL:
            raise Misuse(f"wait_seconds must be between 0 and {_LONGEST_POLL}")
        traced, given = trace_headers(traceparent), dict(arguments or {})
        if KEY in given:
            raise Misuse(f"{KEY} is no argument here: give a step, or {KEY}= itself")
        # Whether a step was done before is not known to whoever is refused before it is looked for.
        named = step is not None or idempotency_key is not None
        if self.refusal is not None:
            return _unknown(self.refusal) if named else self.refusal
        described = None
        if idempotency_key is None:
            described = yield from self._described(tool)
            if isinstance(described, Reply):
                return _unknown(described) if named else described
        key = self._key(tool, described, step, idempotency_key)
        if key is not None:
            given[KEY] = key
        made = self._request(
            "POST",
            f"/v1/tool-calls?wait_seconds={wait_seconds}",
            wait_seconds,
            content={"tool": tool, "arguments": given, "dry_run": dry_run},
            headers=traced,
        )
        repeatable = key is not None or (described is not None and described.repeatable)
        reply = yield from ask(made, Reply, self.patience, repeatable=repeatable)
        return _unknown(reply) if named and reply.code in _OF_THE_TOKEN else reply

    def status(self, request: Reply | str) -> Flow[Reply]:
        """How a call stands now. `request`: its `request_id`, or any reply about it."""
        return (yield from self._look(_id_of(request), self.patience))

    def wait(self, request: Reply | str, timeout: float = 60.0) -> Flow[Reply]:
        """How a call stands once it is over, at the latest after about `timeout` seconds: look at `settled`. While time
        is left, a service that does not answer is asked again."""
        request_id, patience, pause = _id_of(request), self.patience, 0.0
        ends = patience.clock() + timeout
        while True:
            left = max(ends - patience.clock() - pause, 0.0)
            try:
                reply = yield from self._look(request_id, replace(patience, max_wait=left), int(left), pause)
            except Unreachable:
                if patience.clock() + _BETWEEN_POLLS >= ends:
                    raise
                pause = _BETWEEN_POLLS
                continue
            left = ends - patience.clock()
            if not reply.pending or left <= 0:
                return reply
            pause = min(_BETWEEN_POLLS, left)

    def withdraw(self, request: Reply | str) -> Flow[Reply]:
        """Take a call back while it waits for a person; otherwise how it stands."""
        request_id = _id_of(request)
        if self.refusal is not None:
            return _known(self.refusal, request_id)
        made = self._request("POST", f"/v1/tool-calls/{request_id}/cancel")
        return _known((yield from ask(made, Reply, self.patience, repeatable=True)), request_id)

    def _look(self, request_id: str, patience: Patience, seconds: int = 0, pause: float = 0.0) -> Flow[Reply]:
        """How a call stands, once it is over or after so many seconds, `pause` seconds from now."""
        if self.refusal is not None:
            return _known(self.refusal, request_id)
        seconds = min(seconds, _LONGEST_POLL)
        polled = self._request("GET", f"/v1/tool-calls/{request_id}?wait_seconds={seconds}", seconds)
        return _known((yield from ask(replace(polled, pause=pause), Reply, patience, repeatable=True)), request_id)

    def _described(self, name: str) -> Flow[Tool | Reply | None]:
        """The tool as it was listed. What is not listed is looked for again: what a run is offered changes."""
        known = self._listed.get(name) if self._listed is not None else None
        if known is None:
            listed = yield from self.tools()
            known = listed.refusal or listed.get(name)
        return known

    def _key(self, tool: str, described: Tool | None, step: str | None, given: str | None) -> str | None:
        """The idempotency key; None for a read. Of a tool that is not listed the service says what is wrong, or how a
        call stands that was made while it was."""
        if given is not None:
            if step is not None:
                raise Misuse(f"give a step or an {KEY}, not both")
            if _KEY.fullmatch(given) is None:
                raise Misuse(f"{KEY} must be 32 lower-case hex digits")
            return given
        if described is not None and not described.takes_key:
            return None
        if step is None:
            if described is None:
                return None
            raise Misuse(f"{tool} writes: give a step, by which a repeat of it is known to be the same call")
        if self.scope is None:
            raise Misuse("a step belongs to a scope: give scope where the run is opened, e.g. the conversation's id")
        return step_key(self.scope, step)

    def _request(self, method: str, path: str, seconds: float = 0, **content: Any) -> Request:
        return request(method, path, self.token, seconds + self.patience.timeout, **content)


def _id_of(asked: Reply | str) -> str:
    request_id = asked.request_id if isinstance(asked, Reply) else asked
    if _REQUEST_ID.fullmatch(request_id) is None:
        raise Misuse("that is no request_id")
    return request_id


def _known(reply: Reply, request_id: str) -> Reply:
    """The reply, if it is about the call that was asked for; else the question was refused, and not the call."""
    return reply if reply.request_id == request_id else _unknown(reply)


def _unknown(reply: Reply) -> Reply:
    """A refusal to say how a call stands. Its own words would be taken for words about the call."""
    message = (
        f"How this call stands could not be found out ({reply.code}): it may have been done, or wait for a person. "
        "Do not send it again. Stop and report this to the operator of the agent."
    )
    return reply.model_copy(update={"known": False, "message": message})


class AnyRun:
    """What is known of a run, whichever way its calls are made."""

    def __init__(self, core: RunCore) -> None:
        self.core = core

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.run_id or 'of a token'}>"

    @property
    def refusal(self) -> Reply | None:
        """Why the service did not open it."""
        return self.core.refusal

    @property
    def run_id(self) -> str | None:
        """None where it was opened elsewhere, or refused."""
        return self.core.opened.run_id if self.core.opened else None

    @property
    def expires_at(self) -> str | None:
        """None where it was opened elsewhere, or refused."""
        return self.core.opened.expires_at if self.core.opened else None

    @property
    def run_token(self) -> str:
        """A secret: whoever has it can act in this run. Empty where it was refused."""
        return self.core.token

    @property
    def scope(self) -> str | None:
        """What the steps of this run belong to."""
        return self.core.scope


def open_run(
    service_token: str | None,
    patience: Patience,
    *,
    agent_id: str,
    actor_id: str,
    customer_id: str,
    tools: Sequence[str],
    scope: str | None,
    expires_in_seconds: int,
) -> Flow[RunCore]:
    """Open a run, or one that says why it was refused. It has no key: it is repeated only while nothing was sent."""
    if service_token is None:
        raise Misuse("opening a run takes a service token: give service_token to the client")
    content = {
        "agent_id": agent_id,
        "actor_id": actor_id,
        "customer_id": customer_id,
        "tools": list(tools),
        "expires_in_seconds": expires_in_seconds,
    }
    made = request("POST", "/v1/runs", service_token, patience.timeout, content=content)
    opened = yield from ask(made, OpenedRun, patience, repeatable=False)
    token = opened.run_token if isinstance(opened, OpenedRun) else ""
    return RunCore(token, patience, scope, opened)
