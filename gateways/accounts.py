"""What is kept of one exchange for the protected diagnostics: how far it went, never its credential or its bodies."""

import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import cast

import httpx

from gateways.egress import origin
from gateways.trail import Trail
from schemas.diagnostics import Body, Cause, ExchangeAccount, Mark, MarkName, Purpose, RawException, hidden
from schemas.effects import Boundary, Exchange

# Of a response's headers only these are kept, and of these only plain text.
SAFE_HEADERS = (
    "content-type",
    "content-length",
    "request-id",
    "retry-after",
    "stripe-should-retry",
    "idempotent-replayed",
    "paypal-debug-id",
    "date",
)
_PLAIN = re.compile(r"[ -~]{1,200}")


_FIRST_BYTE = "http11.send_request_headers.started"


class Course:
    """Follows an exchange through httpcore's trace events.

    https://www.encode.io/httpcore/extensions/#trace
    """

    _REACHED: Mapping[str, Boundary] = {
        "connection.connect_tcp.complete": "connected",
        # Before the first write: from here on it cannot be said that nothing left.
        _FIRST_BYTE: "bytes_sent",
        "http11.receive_response_headers.complete": "response_received",
    }
    _MARKS: Mapping[str, MarkName] = {
        "connection.connect_tcp.started": "connection_started",
        "connection.connect_tcp.complete": "connected",
        "connection.start_tls.started": "tls_started",
        "connection.start_tls.complete": "tls_established",
        _FIRST_BYTE: "bytes_sent",
        "http11.send_request_body.complete": "request_sent",
        "http11.receive_response_headers.complete": "response_received",
    }

    def __init__(self, before_sending: Callable[[], None] | None = None) -> None:
        """`before_sending` is called right before the first byte of the request; what it raises ends the exchange."""
        self._before_sending = before_sending
        self.started_at = datetime.now(UTC)
        self.reached: Boundary = "nothing_sent"
        self.error: Exception | None = None
        self.status: int | None = None
        self.headers: httpx.Headers | None = None
        self.body = bytearray()
        self._started = time.monotonic()
        self.kept_connection = False
        self._marks: dict[MarkName, int] = {"credential_selected": 0}

    async def __call__(self, event: str, info: Mapping[str, object]) -> None:
        if event == _FIRST_BYTE and self._before_sending is not None:
            self._before_sending()
        self.reached = self._REACHED.get(event, self.reached)
        name = self._MARKS.get(event)
        if name is None:
            return
        if name == "bytes_sent" and "connected" not in self._marks:
            self.kept_connection = True
            self.mark("connection_started")
        self.mark(name)

    def forget_credential(self) -> None:
        """There was none to be selected."""
        self._marks.pop("credential_selected", None)

    @property
    def elapsed_ms(self) -> int:
        return round((time.monotonic() - self._started) * 1000)

    def mark(self, name: MarkName) -> None:
        self._marks.setdefault(name, self.elapsed_ms)

    def marks(self) -> tuple[Mark, ...]:
        """In the order of time."""
        return tuple(Mark(name=name, after_ms=after) for name, after in self._marks.items())

    def answered(self, response: httpx.Response) -> None:
        self.status, self.headers = response.status_code, response.headers


def account(
    trail: Trail,
    purpose: Purpose,
    exchange: Exchange,
    course: Course,
    request: httpx.Request,
    credential_id: str,
    authorization: str,
) -> ExchangeAccount:
    """The account of an exchange that has ended; wherever the remote repeats the credential, it is taken out."""
    scheme, host, port = origin(request.url)
    secrets = (authorization, authorization.partition(" ")[2])
    sent = request.content
    return ExchangeAccount(
        purpose=purpose,
        system=exchange.system,
        method=exchange.method,
        destination=f"{scheme}://{host}:{port}",
        path_template=exchange.path_template,
        credential_id=credential_id,
        started_at=course.started_at,
        elapsed_ms=exchange.elapsed_ms,
        marks=course.marks(),
        kept_connection=course.kept_connection,
        request=Body(size=len(sent), fingerprint=trail.fingerprint(sent)),
        response=None
        if course.status is None
        else Body(size=len(course.body), fingerprint=trail.fingerprint(bytes(course.body))),
        upstream_status=course.status,
        headers=_safe(course.headers, secrets),
        problem=exchange.problem,
        cause=None if course.error is None else _cause(course.error),
        exception=None if course.error is None else RawException.of(course.error, hide=secrets),
    )


def _safe(headers: httpx.Headers | None, secrets: tuple[str, ...]) -> dict[str, str]:
    found = {} if headers is None else {name: headers[name] for name in SAFE_HEADERS if name in headers}
    return {name: hidden(value, secrets) for name, value in found.items() if _PLAIN.fullmatch(value)}


def _cause(error: BaseException) -> Cause | None:
    """What the network did, from whichever exception in the chain says it."""
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return "timeout"
    for each in _chain(error):
        match each:
            case socket.gaierror():
                return "name_not_resolved"
            case ssl.SSLError():
                return "tls"
            case ConnectionRefusedError():
                return "connection_refused"
            case ConnectionResetError():
                return "connection_reset"
            case _:
                continue
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception, those in a group, and what they were raised from."""
    pending, seen = [error], set[int]()
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            pending += cast("BaseExceptionGroup[BaseException]", each).exceptions
        pending += filter(None, (each.__cause__, each.__context__))
