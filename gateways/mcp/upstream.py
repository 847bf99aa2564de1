"""An MCP server that this service stands in front of: its connections, and calls that are made once and of what was
reviewed."""

import asyncio
import time
from collections.abc import Callable, Mapping

import mcp.types
from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode
from pydantic import JsonValue

from gateways import accounts, permits, trail
from gateways.credentials import Credential, CredentialSource, CredentialUnavailableError
from gateways.egress import Egress, EgressDenied
from gateways.http import NotAnswered, within
from gateways.mcp.answers import called
from gateways.mcp.connection import Connection, Lost, Place, ProgramPlace
from gateways.mcp.flights import REFUSALS, Flight, flown
from gateways.upstreams import FRESH_SECONDS, Called, Change, Changed, Definition
from schemas.effects import Boundary, Exchange

# One for each credential that is in use: tenants and tools may have their own.
MAX_CONNECTIONS = 16

_NOBODY = "none"
_tracer = trace.get_tracer("counterseal.gateways")


class McpUpstream:
    """An `Upstream`. One connection is kept for each credential, and opened again when it is lost."""

    def __init__(
        self,
        system: str,
        place: Place,
        credentials: CredentialSource | None,
        egress: Egress,
        *,
        deadline_seconds: float,
        changed: Callable[[Changed], None] = lambda change: None,
    ) -> None:
        """Without `credentials` the server is shown none. `changed` is told of every tool that was found not to be what
        was reviewed."""
        self.system = system
        self._place, self._credentials, self._egress = place, credentials, egress
        self._deadline_seconds, self._changed = deadline_seconds, changed
        self._connections: dict[str, Connection] = {}

    async def close(self) -> None:
        open_now, self._connections = list(self._connections.values()), {}
        await asyncio.gather(*(each.close() for each in open_now))

    async def definitions(self, at_most_old: float = 0) -> Mapping[str, Definition | None] | NotAnswered:
        """Everything that is advertised, by name; None for a name that is there more than once."""
        flight, began = Flight(writes=False), time.monotonic()
        try:
            async with asyncio.timeout(within(self._deadline_seconds)):
                connection, _ = await self._connected(writes=False)
                with flown(flight):
                    return await connection.tools(at_most_old)
        except (TimeoutError, EgressDenied, CredentialUnavailableError, Lost) as problem:
            return NotAnswered(self._exchange("tools/list", flight, began, _problem(problem)))

    async def changes(
        self, pins: Mapping[str, str], at_most_old: float = FRESH_SECONDS
    ) -> Mapping[str, Change] | NotAnswered:
        changes: dict[str, Change] = {}
        # What seems to have changed may have been put right since the list was asked for.
        for age in (at_most_old, 0):
            found = await self.definitions(age)
            if isinstance(found, NotAnswered):
                return found
            changes = changes_of(found, pins)
            if not changes:
                break
        for tool, change in changes.items():
            self._changed(Changed(self.system, tool, change))
        return changes

    async def call(
        self,
        tool: str,
        pin: str,
        arguments: Mapping[str, JsonValue],
        *,
        meta: Mapping[str, JsonValue] | None = None,
        writes: bool = False,
    ) -> Called | Changed | NotAnswered:
        flight, began = Flight(writes=writes), time.monotonic()
        connection, credential = None, None
        attributes = {"mcp.method.name": "tools/call", "gen_ai.tool.name": tool, "server.address": self.system}
        with _tracer.start_as_current_span(
            f"tools/call {self.system}",
            kind=SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            answer, problem = None, None
            try:
                async with asyncio.timeout(within(self._deadline_seconds)):
                    connection, credential = await self._connected(writes=writes)
                    changes = changes_of(await connection.tools(0 if writes else FRESH_SECONDS), {tool: pin})
                    if changes and not writes:
                        changes = changes_of(await connection.tools(0), {tool: pin})
                    if changes:
                        found = Changed(self.system, tool, changes[tool])
                        self._changed(found)
                        return found
                    answer = await self._sent(connection, flight, tool, arguments, meta)
            except (TimeoutError, EgressDenied, CredentialUnavailableError, Lost, permits.PermitExpiredError) as error:
                problem = flight.problem or _problem(error)
                if connection is not None and problem not in ("egress_denied", "permit_expired"):
                    connection.lose()
                span.set_attribute("error.type", problem)
                span.set_status(Status(StatusCode.ERROR))
            status = flight.course.status
            if status is not None and status >= 400 and flight.problem is None:
                # What the SDK makes of a status, or of the error that came with it, is no answer of the tool's.
                answer, problem = None, REFUSALS.get(status, f"http_{status}")
                if connection is not None and status not in REFUSALS:
                    connection.lose()
            exchange = self._exchange("tools/call", flight, began, problem)
            self._leave_account(flight, exchange, credential)
            return NotAnswered(exchange) if answer is None else called(answer, exchange)

    async def _sent(
        self,
        connection: Connection,
        flight: Flight,
        tool: str,
        arguments: Mapping[str, JsonValue],
        meta: Mapping[str, JsonValue] | None,
    ) -> mcp.types.CallToolResult | int:
        """Raises Lost, and PermitExpiredError where nothing was sent."""
        if not connection.over_http:
            await connection.ready()
            if flight.writes:
                permits.check()
            # From here on it cannot be said that nothing left.
            flight.course.reached = "bytes_sent"
            flight.course.mark("bytes_sent")
        with flown(flight):
            answer = await connection.call(tool, arguments, meta)
        if flight.problem is not None:
            raise Lost(flight.problem)
        if not connection.over_http:
            flight.course.reached = "response_received"
            flight.course.mark("response_received")
        return answer

    async def _connected(self, *, writes: bool) -> tuple[Connection, Credential | None]:
        """Raises CredentialUnavailableError and EgressDenied."""
        if isinstance(self._place, ProgramPlace):
            self._egress.local(self.system, writes=writes)
        credential = None if self._credentials is None else await self._credentials.credential(self.system)
        name = _NOBODY if credential is None else credential.record_id
        connection = self._connections.pop(name, None)
        if connection is None or connection.is_lost:
            secret = None if credential is None else credential.secret
            connection = Connection(self.system, self._place, secret, self._deadline_seconds)
            connection.open()
        # What was used last stands last.
        self._connections[name] = connection
        if len(self._connections) > MAX_CONNECTIONS:
            self._connections.pop(next(iter(self._connections))).lose()
        return connection, credential

    def _exchange(self, method: str, flight: Flight, began: float, problem: str | None) -> Exchange:
        reached: Boundary = flight.course.reached
        return Exchange(
            system=self.system,
            method="POST",
            path_template=method,
            reached=reached,
            upstream_status=flight.course.status,
            elapsed_ms=round((time.monotonic() - began) * 1000),
            problem=problem,
        )

    def _leave_account(self, flight: Flight, exchange: Exchange, credential: Credential | None) -> None:
        following, request = trail.current(), flight.request
        if following is None or request is None:
            return
        shown = "" if credential is None else credential.record_id
        authorization = request.headers.get("authorization", "")
        # Made now: the session's flight goes on.
        made = accounts.account(following, following.purpose, exchange, flight.course, request, shown, authorization)
        following.ended(lambda: made)


def changes_of(found: Mapping[str, Definition | None], pins: Mapping[str, str]) -> dict[str, Change]:
    """Pure. Those tools that are not what was reviewed, and how."""
    changes: dict[str, Change] = {}
    for tool, pin in pins.items():
        definition = found.get(tool)
        if tool not in found:
            changes[tool] = "gone"
        elif definition is None or definition.pin != pin:
            changes[tool] = "changed"
    return changes


def _problem(error: Exception) -> str:
    """Our word for why there is no answer."""
    match error:
        case TimeoutError():
            return "timeout"
        case EgressDenied():
            return "egress_denied"
        case CredentialUnavailableError():
            return error.problem
        case Lost():
            return error.problem
        case _:
            return "permit_expired"
