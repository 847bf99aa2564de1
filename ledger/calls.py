"""Reading calls and moving them on: a change is events plus the projections that follow, in one transaction."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ledger.cards import insert_approval
from ledger.chain import EventRow, Head, extend, opened
from ledger.counting import count
from ledger.data_keys import DataKeys
from ledger.database import Connection, Pool
from ledger.folding import advanced
from ledger.queries import load
from ledger.records import CallRecord, Step, details_context, open_record
from schemas.codes import Status
from schemas.events import Recorded

_SQL = load("calls")
_APPROVALS = load("approvals")


class UnknownCall(Exception):
    """There is no such call, or not for this tenant."""


@dataclass(frozen=True, slots=True)
class CallOfEffect:
    """Where the effect of a call belongs."""

    request_id: str
    tenant: str
    workflow_id: str
    tool: str
    status: Status


@dataclass(frozen=True, slots=True)
class Outline:
    """What stands of a call in the clear, and so is left when its customer was erased (`erased`)."""

    request_id: str
    tenant: str
    agent_id: str
    run_id: str
    tool: str
    status: Status
    code: str
    verdict: str | None
    policy_version: str | None
    approval_id: str | None
    workflow_id: str
    created_at: datetime
    updated_at: datetime
    head: Head
    erased: bool


class Calls:
    """The calls of the ledger."""

    def __init__(self, pool: Pool, keys: DataKeys) -> None:
        self._pool = pool
        self._keys = keys

    async def read(self, request_id: str) -> CallRecord:
        """Raises UnknownCall."""
        async with self._pool.acquire() as connection:
            row = await connection.fetchrow(_SQL["read_call"], request_id)
            if row is None:
                raise UnknownCall(request_id)
            return open_record(row, await self._keys.by_id(connection, row["key_id"]))

    async def outline(self, request_id: str) -> Outline:
        """Of any call, also of one whose customer was erased. Raises UnknownCall."""
        row = await self._pool.fetchrow(_SQL["read_call"], request_id)
        if row is None:
            raise UnknownCall(request_id)
        plain = {name: row[name] for name in Outline.__slots__ if name not in ("head", "erased")}
        return Outline(**plain, head=Head(row["n"], row["hash"]), erased=row["erased_at"] is not None)

    async def visible_to(self, tenant: str, agent_id: str, request_id: str) -> CallRecord | None:
        """The call when it belongs to this tenant and agent and was not erased; None otherwise, whatever the reason."""
        async with self._pool.acquire() as connection:
            row = await connection.fetchrow(_SQL["visible_call"], request_id, tenant, agent_id)
            return (
                None
                if row is None or row["erased_at"] is not None
                else open_record(row, await self._keys.by_id(connection, row["key_id"]))
            )

    async def by_workflow_ids(self, workflow_ids: Sequence[str]) -> list[CallRecord]:
        """Those of these calls that the ledger knows."""
        async with self._pool.acquire() as connection:
            rows = await connection.fetch(_SQL["by_workflow_ids"], workflow_ids)
            return [open_record(row, await self._keys.by_id(connection, row["key_id"])) for row in rows]

    async def statuses(self, workflow_ids: Sequence[str]) -> dict[str, Status]:
        """Status by workflow id, of those that the ledger knows."""
        rows = await self._pool.fetch(_SQL["statuses_by_workflow_ids"], workflow_ids)
        return {row["workflow_id"]: row["status"] for row in rows}

    async def advance(
        self, request_id: str, decide: Callable[[CallRecord, datetime], Step | None]
    ) -> tuple[CallRecord, bool]:
        """Lock the call, let `decide` say what changes (None: nothing), write it: (the call after, whether it changed).

        `decide` gets the call and the database's clock, and must be pure. Raises UnknownCall.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            record, now = await self.lock(connection, request_id)
            step = decide(record, now)
            if step is None:
                return record, False
            return await self.write(connection, record, step, now), True

    async def lock(self, connection: Connection, request_id: str) -> tuple[CallRecord, datetime]:
        """The call, locked until the transaction ends, and the database's clock. Raises UnknownCall."""
        row = await connection.fetchrow(_SQL["lock_call"], request_id)
        if row is None:
            raise UnknownCall(request_id)
        return open_record(row, await self._keys.by_id(connection, row["key_id"])), row["now"]

    async def write(self, connection: Connection, record: CallRecord, step: Step, now: datetime) -> CallRecord:
        """Append the step's events and move the projections; the call must be locked by `connection`."""
        key = await self._keys.for_subject(connection, record.tenant, record.details.call.binding.customer_id)
        rows, head = extend(
            record.head, step.events, tenant=record.tenant, request_id=record.request_id, at=now, key=key
        )
        after, changes = advanced(record, step.events, head=head, at=now)
        approval_id, approval = changes.closes or (None, None)
        if changes.deadline is not None:
            await connection.execute(_APPROVALS["extend_approval"], *changes.deadline, now)
        await connection.execute(
            _SQL["advance_call"],
            record.request_id,
            record.tenant,
            now,
            key.key_id,
            *columns(rows),
            approval,
            approval_id,
            changes.uses,
            after.status,
            after.code,
            after.operation_id,
            after.intended_at,
            head.n,
            head.hash,
            key.seal(after.details.model_dump_json().encode(), details_context(record.tenant, record.request_id)),
            after.remote_id,
            after.review,
            after.recheck_at,
            step.alert,
            after.approval_id,
        )
        if changes.amount is not None:
            await connection.execute(_SQL["amend_uses"], record.request_id, changes.amount)
        if changes.asks is not None:
            await insert_approval(connection, changes.asks, key, self._keys)
        count(record, after, step.events)
        return after

    async def events(self, request_id: str) -> list[tuple[EventRow, Recorded]]:
        """The events of a call in order, decrypted as far as they can be. Raises UnknownCall when there are none."""
        async with self._pool.acquire() as connection:
            found = await connection.fetch(_SQL["events_of"], request_id)
            if not found:
                raise UnknownCall(request_id)
            rows = [EventRow.of(fields) for fields in found]
            keys = await self._keys.left(connection, {row.key_id for row in rows})
            return [(row, opened(row, keys.get(row.key_id))) for row in rows]

    async def rows(self, request_id: str) -> list[EventRow]:
        """The events of a call in order, as they are stored; empty when there are none."""
        found = await self._pool.fetch(_SQL["events_of"], request_id)
        return [EventRow.of(row) for row in found]

    async def seals(self, request_id: str) -> dict[int, int]:
        """The number of the seal that each event of a call is in, by the event's own number; those not sealed yet are
        left out."""
        found = await self._pool.fetch(_SQL["seals_of_call"], request_id)
        return {row["n"]: row["number"] for row in found}

    async def recent(self, *, tenant: str | None, status: str | None, limit: int) -> list[dict[str, object]]:
        """Newest first, plain columns only."""
        return [dict(row) for row in await self._pool.fetch(_SQL["list_calls"], tenant, status, limit)]

    async def in_trace(self, trace_id: str, limit: int) -> list[str]:
        """The request ids of the calls in a trace, in order."""
        return [row["request_id"] for row in await self._pool.fetch(_SQL["in_trace"], trace_id, limit)]

    async def counts(self, tenant: str, newest: int) -> dict[str, int]:
        """How many calls there are, by status; of those that have ended only what is among the `newest`."""
        return {row["status"]: row["count"] for row in await self._pool.fetch(_SQL["count_calls"], tenant, newest)}

    async def by_effect(self, operation_id: str | None, remote_id: str | None) -> CallOfEffect | None:
        """Whose effect has this operation id, or else this id at the remote system."""
        row = await self._pool.fetchrow(_SQL["by_effect"], operation_id, remote_id)
        return CallOfEffect(**row) if row else None

    async def to_recheck(self, limit: int) -> list[CallOfEffect]:
        """Calls whose settled effect is due to be looked at again."""
        return [CallOfEffect(**row) for row in await self._pool.fetch(_SQL["to_recheck"], limit)]

    async def in_review(self, tenant: str, limit: int) -> list[dict[str, object]]:
        """What people have to settle, oldest first; plain columns only."""
        return [dict(row) for row in await self._pool.fetch(_SQL["in_review"], tenant, limit)]

    async def looked_up(self, tenant: str, limit: int) -> list[dict[str, object]]:
        """Outcomes that are not known and no person's to settle yet, newest first; plain columns only."""
        return [dict(row) for row in await self._pool.fetch(_SQL["looked_up"], tenant, limit)]

    async def open_for(
        self, seconds: float, after: tuple[datetime, str], limit: int
    ) -> list[tuple[str, str, str, datetime]]:
        """(request id, workflow id, status, changed at) of calls that should be running, after a cursor."""
        rows = await self._pool.fetch(_SQL["open_calls"], seconds, *after, limit)
        return [(row["request_id"], row["workflow_id"], row["status"], row["updated_at"]) for row in rows]


def columns(rows: Sequence[EventRow]) -> tuple[list[object], ...]:
    """Rows as the arrays that the statements unnest: n, type, version, body, previous, hash."""
    return tuple([getattr(row, name) for row in rows] for name in ("n", "type", "version", "body", "previous", "hash"))
