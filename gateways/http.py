"""One exchange with a remote system over HTTP: bounded in time and size, and honest about how far it got."""

import asyncio
import math
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Literal
from urllib.parse import quote

import httpx
from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from pydantic import JsonValue

from gateways import accounts, permits, trail
from gateways.accounts import SAFE_HEADERS, Course
from gateways.credentials import CredentialSource, CredentialUnavailableError
from gateways.egress import Egress, EgressDenied, base_url, origin
from schemas import strict_json
from schemas.effects import Boundary, Exchange

Problem = Literal[
    "egress_denied",
    "permit_expired",
    "vault_locked",
    "no_credential",
    "connect_failed",
    "timeout",
    "reset",
    "no_response",
    "truncated",
    "too_large",
    "unreadable",
    "transport",
]
Method = Literal["GET", "POST", "PUT"]

MAX_BODY_BYTES = 1024 * 1024

_PATH_PARAMETER = re.compile(r"[0-9A-Za-z_-]{1,255}")
_RETRY_AFTER = re.compile(r"[0-9]{1,5}")
_TRACE_CONTEXT = TraceContextTextMapPropagator()
_tracer = trace.get_tracer("counterseal.gateways")
# https://opentelemetry.io/docs/specs/semconv/http/http-metrics/#metric-httpclientrequestduration
_EXCHANGES = metrics.get_meter("counterseal.gateways").create_histogram(
    "http.client.request.duration",
    unit="s",
    description="How long exchanges with remote systems took, by system and template of the path",
    explicit_bucket_boundaries_advisory=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
_at_most: ContextVar[float] = ContextVar("at_most", default=math.inf)


@dataclass(frozen=True, slots=True)
class Answered:
    """A response. `json` is None when the body is not strict JSON or too large; `exchange.problem` says which.

    `headers` has those that are harmless to keep, with names in lower case.
    """

    status: int
    json: JsonValue
    retry_after_seconds: int | None
    exchange: Exchange
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """No response, or only a part of one."""

    exchange: Exchange

    @property
    def nothing_sent(self) -> bool:
        """True only when no byte of the request can have left."""
        return self.exchange.reached in ("nothing_sent", "connected")


Answer = Answered | NotAnswered


@contextmanager
def at_most(seconds: float) -> Generator[None]:
    """In this context an exchange takes no longer than this, however long its system is given."""
    token = _at_most.set(seconds)
    try:
        yield
    finally:
        _at_most.reset(token)


def within(seconds: float) -> float:
    """The deadline of an exchange whose system is given so long."""
    return min(seconds, _at_most.get())


def bearer(secret: str) -> str:
    """https://www.rfc-editor.org/rfc/rfc6750#section-2.1"""
    return f"Bearer {secret}"


@dataclass(frozen=True, slots=True)
class _Received:
    status: int
    body: JsonValue
    retry_after_seconds: int | None
    headers: Mapping[str, str]
    problem: Problem | None


class Remote:
    """One remote system, its credential and its limits. The credential leaves only in the `Authorization` header."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        egress: Egress,
        *,
        system: str,
        base: str,
        credentials: CredentialSource,
        authorize: Callable[[str], str] = bearer,
        deadline_seconds: float = 10.0,
        propagate_trace: bool = False,
    ) -> None:
        """`system` is our word for it, e.g. `payments`. `authorize` makes the `Authorization` header of a secret.

        `propagate_trace`: whether the system is told of the trace; not for systems of others.

        Raises ValueError when `base` is not usable as a base URL.
        """
        self.system = system
        self._client = client
        self._egress = egress
        self._base = base_url(base)
        self._credentials = credentials
        self._authorize = authorize
        self._deadline_seconds = deadline_seconds
        self._propagate_trace = propagate_trace

    async def exchange(
        self,
        method: Method,
        template: str,
        *,
        path: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        json: Mapping[str, JsonValue] | None = None,
        idempotency_key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request, sent at most once. Never raises for what the network or the remote did.

        `template` is the path with `{names}` for what `path` gives; every value of `path` must be a plain identifier
        (else ValueError). `headers` are added, or take a standard one's place: an `Authorization` among them is hidden
        as the `Remote`'s own is. The deadline spans everything from connecting to the last byte of the body.
        """
        course = Course(permits.check if method != "GET" else None)
        given = dict(headers or {})
        if idempotency_key is not None:
            given["Idempotency-Key"] = idempotency_key
        filled = _fill(template, path or {})
        try:
            credential = await self._credentials.credential(self.system)
        except CredentialUnavailableError as missing:
            course.forget_credential()
            request = self._request(method, filled, query, form, json, given, course)
            return NotAnswered(self._leave_account(method, template, course, request, "", None, missing.problem))
        given.setdefault("Authorization", self._authorize(credential.secret.get_secret_value()))
        request = self._request(method, filled, query, form, json, given, course)
        scheme_host_port = origin(request.url)
        attributes = {
            "http.request.method": method,
            "url.template": template,
            "server.address": scheme_host_port[1],
            "server.port": scheme_host_port[2],
        }
        with _tracer.start_as_current_span(
            f"{method} {template}",
            kind=SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            if self._propagate_trace:
                _TRACE_CONTEXT.inject(request.headers)
            try:
                received, problem = await self._send(request, course)
            except Exception as error:
                course.error = error
                self._leave_account(method, template, course, request, credential.record_id, None, "transport")
                raise
            status = None if received is None else received.status
            _finish(span, status, problem)
            self._measure(method, template, course, status, problem)
        exchange = self._leave_account(method, template, course, request, credential.record_id, status, problem)
        if received is None:
            return NotAnswered(exchange)
        return Answered(received.status, received.body, received.retry_after_seconds, exchange, received.headers)

    def _measure(
        self, method: Method, template: str, course: Course, status: int | None, problem: Problem | None
    ) -> None:
        labels: dict[str, str | int] = {
            "counterseal.system": self.system,
            "http.request.method": method,
            "url.template": template,
            "error.type": problem or "",
        }
        if status is not None:
            labels["http.response.status_code"] = status
        _EXCHANGES.record(course.elapsed_ms / 1000, labels)

    def _leave_account(
        self,
        method: Method,
        template: str,
        course: Course,
        request: httpx.Request,
        credential_id: str,
        status: int | None,
        problem: Problem | None,
    ) -> Exchange:
        """What everyone may be told of the exchange; the step's trail, when there is one, gets the full account."""
        exchange = Exchange(
            system=self.system,
            method=method,
            path_template=template,
            reached=course.reached,
            upstream_status=status,
            elapsed_ms=course.elapsed_ms,
            problem=problem,
        )
        if (following := trail.current()) is not None:
            authorization = request.headers.get("authorization", "")
            following.ended(
                partial(
                    accounts.account,
                    following,
                    following.purpose,
                    exchange,
                    course,
                    request,
                    credential_id,
                    authorization,
                )
            )
        return exchange

    def _request(
        self,
        method: Method,
        path: str,
        query: Mapping[str, str] | None,
        form: Mapping[str, str] | None,
        json: Mapping[str, JsonValue] | None,
        given: Mapping[str, str],
        course: Course,
    ) -> httpx.Request:
        headers = {
            "Accept": "application/json",
            # A compressed body could be small on the wire and huge in memory.
            "Accept-Encoding": "identity",
            "Connection": "keep-alive",
            "User-Agent": "counterseal",
            **given,
        }
        url = self._base.copy_with(path=self._base.path.rstrip("/") + path)
        # Connecting has a bound of its own, which unlike a cancellation closes a socket in the middle of its handshake.
        timeout = httpx.Timeout(None, connect=self._deadline() / 2)
        # Not the client's own `build_request`, which merges all of it with defaults that are replaced here.
        return httpx.Request(
            method,
            url,
            params=query,
            data=form,
            json=json,
            headers=headers,
            extensions={"timeout": timeout.as_dict(), "trace": course},
        )

    def _deadline(self) -> float:
        return within(self._deadline_seconds)

    async def _send(self, request: httpx.Request, course: Course) -> tuple[_Received | None, Problem | None]:
        try:
            with self._egress.passage(self.system, request):
                async with asyncio.timeout(self._deadline()):
                    received = await self._receive(request, course)
        except EgressDenied:
            return None, "egress_denied"
        except TimeoutError as error:
            course.error = error
            return None, "timeout"
        except permits.PermitExpiredError:
            return None, "permit_expired"
        except httpx.HTTPError as error:
            course.error = error
            return None, problem_of(error, course.reached)
        return received, received.problem

    async def _receive(self, request: httpx.Request, course: Course) -> _Received:
        response = await self._client.send(request, stream=True)
        course.answered(response)
        try:
            body, problem = await _read_json(response, course.body)
        finally:
            await response.aclose()
        course.mark("body_read")
        retry_after = response.headers.get("retry-after", "")
        seconds = int(retry_after) if _RETRY_AFTER.fullmatch(retry_after) else None
        kept = {name: response.headers[name] for name in SAFE_HEADERS if name in response.headers}
        return _Received(response.status_code, body, seconds, kept, problem)


async def _read_json(response: httpx.Response, content: bytearray) -> tuple[JsonValue, Problem | None]:
    """The body, read into `content` to its end unless it grows too large."""
    async for chunk in response.aiter_raw():
        content += chunk
        if len(content) > MAX_BODY_BYTES:
            return None, "too_large"
    if response.headers.get("content-encoding", "identity") != "identity":
        return None, "unreadable"
    try:
        return strict_json.loads(bytes(content)), None
    except strict_json.UnreadableError:
        return None, "unreadable"


def _fill(template: str, values: Mapping[str, str]) -> str:
    if any(_PATH_PARAMETER.fullmatch(value) is None for value in values.values()):
        raise ValueError("a path parameter is not a plain identifier")
    return template.format_map({name: quote(value, safe="") for name, value in values.items()})


def problem_of(error: httpx.HTTPError, reached: Boundary) -> Problem:
    """Our word for a failure of the transport; the error's own text may hold URLs and headers and goes nowhere."""
    if reached == "response_received":
        return "truncated"
    match error:
        case httpx.TimeoutException():
            return "timeout"
        case httpx.ConnectError():
            return "connect_failed"
        case httpx.RemoteProtocolError():
            return "no_response"
        case httpx.NetworkError():
            return "reset"
        case _:
            return "transport"


def _finish(span: trace.Span, status: int | None, problem: Problem | None) -> None:
    """Names of attributes: https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-client-span"""
    if status is not None:
        span.set_attribute("http.response.status_code", status)
    error_type = problem or (str(status) if status is not None and status >= 400 else None)
    if error_type is not None:
        span.set_attribute("error.type", error_type)
        span.set_status(Status(StatusCode.ERROR))
