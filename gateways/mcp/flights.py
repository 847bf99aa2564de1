"""The way out of what the SDK sends over HTTP: through the service's own client, under its egress guard."""

import logging
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

import httpx
import httpx2
from pydantic import SecretStr

from gateways import permits
from gateways.accounts import Course
from gateways.egress import Egress, EgressDenied
from gateways.http import MAX_BODY_BYTES, Problem, bearer, problem_of

# What the SDK may say of itself; everything else of a request is ours.
_PASSED = frozenset(
    ("accept", "content-type", "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "last-event-id")
)
_PASSED_BEGIN = "mcp-param-"
# With these a server refuses whoever asks (RFC 9110, RFC 6585), before it looks at what.
REFUSALS = {401: "auth_failed", 403: "forbidden", 429: "rate_limited"}


class Flight:
    """What became of one message: how far it came, and why it was not answered."""

    def __init__(self, *, writes: bool) -> None:
        self.writes = writes
        self.course = Course(permits.check if writes else None)
        self.request: httpx.Request | None = None
        self.problem: Problem | None = None
        self.taken = False


_flight: ContextVar[Flight | None] = ContextVar("flight", default=None)


@contextmanager
def flown(flight: Flight) -> Generator[Flight]:
    """The first POST in this context is this flight's, in tasks that are started for it too."""
    token = _flight.set(flight)
    try:
        yield flight
    finally:
        _flight.reset(token)


class Bridge(httpx2.AsyncBaseTransport):
    """Sends the SDK's requests with the service's client: pinned addresses, no redirects, no cookies, no proxies.

    It never raises for what the network did, since that would end everything else on the connection: a request without
    an answer gets an empty 502, a body that breaks off ends there, and the flight says what happened.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        egress: Egress,
        system: str,
        secret: SecretStr | None,
        connect_seconds: float,
        told: Callable[[str | None], None],
    ) -> None:
        """`told` hears of each message why it got no answer, or None where it has one; whoever sent it."""
        # At INFO it writes URLs.
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        self._client, self._egress, self._system = client, egress, system
        self._secret, self._connect_seconds, self._told = secret, connect_seconds, told

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        flight = _flight.get()
        if flight is None or flight.taken or request.method != "POST":
            # What belongs to no call: the handshake, the server's own stream, ending the session.
            flight = Flight(writes=False)
        flight.taken = True
        sent = flight.request = self._request(request, await request.aread(), flight)
        try:
            with self._egress.passage(self._system, sent, writes=flight.writes):
                response = await self._client.send(sent, stream=True)
        except EgressDenied:
            return self._unanswered(flight, "egress_denied")
        except permits.PermitExpiredError:
            return self._unanswered(flight, "permit_expired")
        except httpx.HTTPError as error:
            flight.course.error = error
            return self._unanswered(flight, problem_of(error, flight.course.reached))
        flight.course.answered(response)
        if response.is_redirect or response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            return self._unanswered(flight, "unreadable")
        if request.method == "POST":
            self._told(REFUSALS.get(response.status_code))
        return httpx2.Response(
            response.status_code, headers=response.headers.multi_items(), stream=_Body(response, flight)
        )

    def _request(self, request: httpx2.Request, content: bytes, flight: Flight) -> httpx.Request:
        passed = {
            name: value for name, value in request.headers.items() if name in _PASSED or name.startswith(_PASSED_BEGIN)
        }
        ours = {"Accept-Encoding": "identity", "User-Agent": "counterseal"}
        if self._secret is not None:
            ours["Authorization"] = bearer(self._secret.get_secret_value())
        return self._client.build_request(
            request.method,
            str(request.url),
            content=content or None,
            headers=passed | ours,
            timeout=httpx.Timeout(None, connect=self._connect_seconds),
            extensions={"trace": flight.course},
        )

    def _unanswered(self, flight: Flight, problem: Problem) -> httpx2.Response:
        flight.problem = problem
        if flight.request is not None and flight.request.method == "POST":
            self._told(problem)
        return httpx2.Response(502)


class _Body(httpx2.AsyncByteStream):
    """A body, up to what may be read of one."""

    def __init__(self, response: httpx.Response, flight: Flight) -> None:
        self._response, self._flight = response, flight

    async def __aiter__(self) -> AsyncIterator[bytes]:
        content = self._flight.course.body
        try:
            async for chunk in self._response.aiter_raw():
                content += chunk
                if len(content) > MAX_BODY_BYTES:
                    self._flight.problem = "too_large"
                    return
                yield chunk
        except httpx.HTTPError as error:
            self._flight.course.error = error
            self._flight.problem = "truncated"

    async def aclose(self) -> None:
        await self._response.aclose()
