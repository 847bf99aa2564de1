"""The admission transaction: count, decide and record a new call, whatever runs at the same time."""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import asyncpg

from ledger.calls import Calls, columns
from ledger.cards import insert_approval
from ledger.chain import GENESIS, Head, extend
from ledger.counting import count
from ledger.data_keys import DataKeys
from ledger.database import Connection, Pool
from ledger.folding import advanced
from ledger.queries import load
from ledger.records import BREAKER, CallRecord, Step, details_context, trip_subject
from ledger.streams import NO_CUSTOMER, append
from ledger.switches import stream_of
from schemas.calls import Binding, Call, Doing
from schemas.events import BreakerTripped, Event, SwitchChanged
from schemas.subjects import counted_for
from schemas.switches import PERMIT

_SQL = load("calls")
_SWITCHES = load("switches")


@dataclass(frozen=True, slots=True)
class RunState:
    """A run as it stands, the database's clock, and the call that already has this workflow id, if any."""

    binding: Binding
    tools: frozenset[str]
    is_open: bool
    existing: str | None
    now: datetime
    switched_off: str | None = None
    """The first switch that covers the call and is off."""
    doings: Sequence[Doing] = ()
    """What it did before, a row for each tool."""


@dataclass(frozen=True, slots=True)
class Window:
    """What to count: live uses of `subject` in the last `seconds` (None: ever), and where it is said, those after the
    breaker last turned `trips` off. `room`: what they may come to, calls or amounts, if the call is to fit.
    `unasked`: a call that waits for a person does not count.
    """

    name: str
    subject: str
    seconds: int | None
    room: int | None = None
    of_amounts: bool = False
    trips: str | None = None
    unasked: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """What was counted. `in_the_way`: the time of the use with whose leaving of the window the call would fit."""

    count: int
    amount: int
    in_the_way: datetime | None


@dataclass(frozen=True, slots=True)
class Reads:
    """What the transaction read under its locks: the clock, what others hold of the resource, usage by window, and
    whether the run was revoked (it may also have expired, which ends nothing that was begun), the first switch that
    covers the call and is off, until when by this process's monotonic clock a write may begin on that, and how many
    calls of the tenant, and of the agent among them, wait for a person."""

    now: datetime
    reserved: int
    usage: dict[str, Usage]
    revoked: bool = False
    switched_off: str | None = None
    permit_until: float = 0.0
    parked: int = 0
    parked_by_agent: int = 0
    doings: Sequence[Doing] | None = None
    """What the run did before, where that was asked for."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """What was decided about a new call: the events that say it. `tripped_because` is why in words, where a breaker
    turned its switch off with it."""

    events: Sequence[Event]
    tripped_because: str = ""


class AlreadyAdmitted(Exception):
    """Another call has this workflow id: its request id is the only argument."""

    @property
    def request_id(self) -> str:
        return str(self.args[0])


class RequestIdTaken(Exception):
    """Another call, of another workflow, has this request id."""


class RunRevoked(Exception):
    """The run was revoked while the call was being proposed."""


class Admissions:
    """Admits calls."""

    def __init__(self, pool: Pool, keys: DataKeys, calls: Calls) -> None:
        self._pool = pool
        self._keys = keys
        self._calls = calls

    async def run(self, run_id: str, workflow_id: str, switches: Sequence[str] = ()) -> RunState | None:
        """The run; None when there is none. `switches` are those of the tool."""
        row = await self._pool.fetchrow(_SQL["run_and_call"], run_id, workflow_id, switches)
        if row is None:
            return None
        binding = Binding(**{name: row[name] for name in Binding.model_fields})
        self._keys.expect(binding.tenant, binding.customer_id, row["key_id"])
        return RunState(
            binding,
            frozenset(row["tools"]),
            row["is_open"],
            row["request_id"],
            row["now"],
            row["switched_off"],
            [Doing(*each) for each in zip(row["did_tools"], row["did_asked"], row["did_executed"], strict=True)],
        )

    async def doings(self, run_id: str) -> list[Doing]:
        """What a run did so far, a row for each tool."""
        return [Doing(*row) for row in await self._pool.fetch(_SQL["run_doings"], run_id)]

    async def admit(
        self,
        call: Call,
        windows: Sequence[Window],
        resource: str | None,
        facts_since: datetime,
        decide: Callable[[Reads], Admitted],
        switches: Sequence[str] = (),
        counted: Sequence[str] = (),
        beside: Sequence[Window] = (),
        phased: bool = False,
    ) -> CallRecord:
        """Count under locks, let `decide` (pure) say what becomes of the call, and record it. `switches` are those that
        cover it, `counted` the calls whose effects the facts already contain. What is counted `beside`, nothing waits
        for. `phased`: what its run did before decides about it too.

        Raises AlreadyAdmitted, RunRevoked and RequestIdTaken.

        `resource` is the subject whose reservations matter; `facts_since` is the database's clock from before its
        facts were read, so that what was spent since is still counted as reserved.
        """
        try:
            async with self._pool.acquire() as connection:
                # Committed before anything is sealed with it: a key that is rolled back takes with it what others,
                # who found it in memory, sealed meanwhile.
                await self._keys.for_subject(connection, call.binding.tenant, call.binding.customer_id)
                if any(window.trips for window in windows):
                    await self._keys.for_subject(connection, call.binding.tenant, NO_CUSTOMER)
                async with connection.transaction():
                    customer = customer_lock(call.binding.tenant, call.binding.customer_id)
                    locks = _lock_keys(call, windows, resource, parking=True, phased=phased)
                    await connection.execute(_SQL["lock_subjects"], locks, customer)
                    every = [*windows, *beside]
                    reads = await self._reads(connection, call, every, resource, facts_since, switches, counted)
                    if phased:
                        did = await connection.fetch(_SQL["run_doings"], call.binding.run_id)
                        reads = replace(reads, doings=[Doing(*row) for row in did])
                    admitted = decide(reads)
                    return await self._insert(connection, call, admitted, reads.now)
        except asyncpg.UniqueViolationError:
            # The rollback released everything; whoever won is committed by now.
            raise await self._conflict(call) from None

    async def record(self, call: Call, admitted: Admitted, now: datetime) -> CallRecord:
        """Record a call that takes nothing and counts against nothing. Raises AlreadyAdmitted and RequestIdTaken."""
        try:
            async with self._pool.acquire() as connection:
                return await self._insert(connection, call, admitted, now)
        except asyncpg.UniqueViolationError:
            raise await self._conflict(call) from None

    async def _trip(self, connection: Connection, call: Call, switch: str, because: str, now: datetime) -> None:
        """Turn a switch off as an operator would: every admission from now on reads it."""
        tenant = call.binding.tenant
        await connection.execute(_SWITCHES["turn_off"], tenant, switch, BREAKER, because, "run")
        await connection.execute(
            _SQL["mark_trip"], call.request_id, tenant, call.tool, trip_subject(switch), now, "breaker_tripped"
        )
        changed = SwitchChanged(switch=switch, off=True, by=BREAKER, reason=because, deadlines="run")
        await append(connection, self._keys, tenant, stream_of(tenant), [changed])

    async def _conflict(self, call: Call) -> Exception:
        existing = await self._pool.fetchval(_SQL["request_of_workflow"], call.workflow_id)
        return RequestIdTaken(call.request_id) if existing is None else AlreadyAdmitted(existing)

    async def intend(
        self,
        call: Call,
        resource: str | None,
        facts_since: datetime,
        decide: Callable[[CallRecord, Reads], Step | None],
        switches: Sequence[str] = (),
        counted: Sequence[str] = (),
    ) -> tuple[CallRecord, bool]:
        """Under the locks of `admit` and the call's own, let `decide` (pure) write the intent or refuse.

        Returns the call after it and whether this changed it; only the one that did may send.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            if locks := _lock_keys(call, [], resource):
                customer = customer_lock(call.binding.tenant, call.binding.customer_id)
                await connection.execute(_SQL["lock_subjects"], locks, customer)
            record, _ = await self._calls.lock(connection, call.request_id)
            reads = await self._reads(connection, call, [], resource, facts_since, switches, counted, strict=False)
            step = decide(record, reads)
            if step is None:
                return record, False
            return await self._calls.write(connection, record, step, reads.now), True

    async def in_flight(self, call: Call, resource: str, facts_since: datetime) -> dict[str, str]:
        """Operation id -> request id of the effects that hold something of the resource, or took it since then."""
        tenant = call.binding.tenant
        rows = await self._pool.fetch(_SQL["in_flight"], tenant, resource, call.request_id, facts_since)
        return {row["operation_id"]: row["request_id"] for row in rows}

    async def preview(
        self,
        call: Call,
        windows: Sequence[Window],
        resource: str | None,
        facts_since: datetime,
        switches: Sequence[str] = (),
    ) -> Reads:
        """What `admit` would read now, without a lock or a trace."""
        async with self._pool.acquire() as connection:
            return await self._reads(connection, call, windows, resource, facts_since, switches, strict=False)

    async def _reads(
        self,
        connection: Connection,
        call: Call,
        windows: Sequence[Window],
        resource: str | None,
        facts_since: datetime,
        switches: Sequence[str],
        counted: Sequence[str] = (),
        *,
        strict: bool = True,
    ) -> Reads:
        # From before the switches are read, so that what they let begin ends in time.
        permit_until = time.monotonic() + PERMIT.total_seconds()
        rows = await connection.fetch(
            _SQL["admission_reads"],
            call.binding.tenant,
            call.workflow_id,
            list(range(len(windows))),
            [window.subject for window in windows],
            [window.seconds for window in windows],
            call.request_id,
            call.tool,
            resource,
            facts_since,
            call.binding.run_id,
            switches,
            counted,
            [window.room for window in windows],
            [window.of_amounts for window in windows],
            [None if window.trips is None else trip_subject(window.trips) for window in windows],
            call.binding.agent_id,
        )
        if strict and rows[0]["existing"] is not None:
            raise AlreadyAdmitted(rows[0]["existing"])
        if strict and rows[0]["revoked"]:
            raise RunRevoked
        usage: dict[str, Usage] = {}
        for row in rows[: len(windows)]:
            window = windows[int(row["i"])]
            usage[window.name] = Usage(row["count"], row["amount"], row["in_the_way"])
        base = rows[0]
        return Reads(
            base["now"],
            base["reserved"],
            usage,
            base["revoked"],
            base["switched_off"],
            permit_until,
            base["parked"],
            base["parked_by_agent"],
        )

    async def _insert(self, connection: Connection, call: Call, admitted: Admitted, now: datetime) -> CallRecord:
        binding, events = call.binding, admitted.events
        for event in events:
            if isinstance(event, BreakerTripped):
                await self._trip(connection, call, event.switch, admitted.tripped_because, now)
        key = await self._keys.for_subject(connection, binding.tenant, binding.customer_id)
        rows, head = extend(
            Head(0, GENESIS), events, tenant=binding.tenant, request_id=call.request_id, at=now, key=key
        )
        record, changes = advanced(None, events, head=head, at=now)
        takes = changes.takes or {}
        await connection.execute(
            _SQL["insert_call"],
            record.request_id,
            record.tenant,
            binding.run_id,
            record.agent_id,
            binding.customer_id,
            record.tool,
            record.workflow_id,
            record.arguments_digest,
            record.status,
            record.code,
            record.verdict,
            record.rule,
            record.policy_version,
            record.approval_id,
            record.operation_id,
            record.intended_at,
            now,
            head.n,
            head.hash,
            key.key_id,
            key.seal(record.details.model_dump_json().encode(), details_context(record.tenant, record.request_id)),
            *columns(rows),
            list(takes.keys()),
            list(takes.values()),
            call.trace_id,
        )
        if changes.asks is not None:
            await insert_approval(connection, changes.asks, key, self._keys)
        count(None, record, events)
        return record


def _lock_keys(
    call: Call, windows: Sequence[Window], resource: str | None, *, parking: bool = False, phased: bool = False
) -> list[int]:
    """64-bit advisory lock keys, in order; a collision only makes two calls wait for each other.

    Limits count the calls of one tool, save the tenant's; a resource is the same for every tool that takes from it,
    and so is the room for calls that wait for a person.
    """
    tenant = call.binding.tenant
    names = {f"{tenant}/{counted_for(each.subject, call.tool)}/{each.subject}" for each in windows}
    if parking:
        names.add(f"{tenant}//parked")
    if phased:
        names.add(f"{tenant}//phases/{call.binding.run_id}")
    if resource is not None:
        names.add(f"{tenant}//{resource}")
    return sorted(_lock_key(each) for each in names)


def customer_lock(tenant: str, customer_id: str) -> int:
    """The advisory lock that admissions for a customer share, and erasing them takes alone."""
    return _lock_key(f"{tenant}//customer/{customer_id}")


def _lock_key(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
