"""Approvals: what waits for a person, and the one place where a decision takes effect."""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import asyncpg

from ledger.calls import Calls, UnknownCall
from ledger.cards import erased_card, open_card
from ledger.claims import claim_in, claims_on
from ledger.data_keys import DataKeys
from ledger.database import Connection, Pool
from ledger.decision_bodies import (
    DecisionBody,
    PersonDecided,
    body_of,
    decision_columns,
    decision_context,
    open_decision,
)
from ledger.passkeys import accept
from ledger.people import Standing, how_many, names_of, objection_by, objection_to, standing_of
from ledger.queries import load
from ledger.records import CallRecord, Step
from schemas.codes import Code, Status
from schemas.decisions import Approval, ClaimedBy, HumanDecision
from schemas.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalGranted,
    ApprovalSupported,
    ApprovalViewed,
    CallCancelled,
    CallSettled,
    DecisionRejected,
    Through,
)

_SQL = load("approvals")
_PAUSES = load("switches")["pauses"]
# Of a decision on what was erased.
_NOTHING = DecisionBody(reason="", token="")
_FAR = datetime(9999, 1, 1, tzinfo=UTC)

MOST_AHEAD = timedelta(days=7)
"""How far away a deadline may be once a person has moved it: what people were shown is not good for ever."""

StepFunction = Callable[[CallRecord, datetime], Step | None]


class Verdict(enum.Enum):
    """What became of a decision."""

    RECORDED = "recorded"
    WAITING = "waiting_for_second"
    """It was recorded, and another person has to approve as well."""
    REPEATED = "repeated"
    """The very same decision was recorded before."""
    ALREADY_DECIDED = "already_decided"
    EXPIRED = "expired"
    STALE = "stale"
    """It was made on another action than the one that waits."""
    NOT_THEIRS = "not_theirs"
    """Whoever made it may not decide this one, or not any more."""
    NOT_PROVEN = "not_proven"
    """It came without what its approval asks its approver to prove."""
    TOO_FAR = "too_far"
    """The deadline would be further away than `MOST_AHEAD`."""
    UNKNOWN = "unknown"


class _UnknownApproval(LookupError):
    """There is no such approval, or not of this call."""


@dataclass(frozen=True, slots=True)
class Undelivered:
    decision_id: str
    approval_id: str
    token: str
    workflow_id: str


@dataclass(frozen=True, slots=True)
class Queue:
    """What waits now; `due_soon` of them expire within the hour."""

    waiting: int
    due_soon: int
    oldest: datetime | None


class Approvals:
    """The approvals of the ledger."""

    def __init__(self, pool: Pool, keys: DataKeys, calls: Calls) -> None:
        self._pool = pool
        self._keys = keys
        self._calls = calls

    async def decide(
        self, decision: HumanDecision, token: str, switches: Sequence[str] = (), through: Through | None = None
    ) -> tuple[Verdict, CallRecord | None]:
        """Record a verified decision. The first one wins; where several people have to approve, it is the last of them
        that lets the call run. A denial settles the call at once.

        `token` is the signed form of `decision`. The deadline is the database's clock's to judge; it does not pass
        while one of `switches`, those that cover the call, is off and pauses it. `through` is where the person made it.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            try:
                record, row, now, verdict = await self._lock(
                    connection, decision.request_id, decision.approval_id, decision.tenant, switches
                )
            except (UnknownCall, _UnknownApproval):
                return Verdict.UNKNOWN, None
            if verdict is Verdict.RECORDED:
                verdict = await self._judge(connection, row, decision, now)
            if verdict is Verdict.RECORDED:
                event = _decided(decision, token, through, enough=False)
                if await self._insert_decision(connection, record, event, now):
                    people = record.details.people
                    if decision.verdict == "approve" and await self._approvers(connection, row, people) < people:
                        verdict = Verdict.WAITING
                    event = _decided(decision, token, through, enough=verdict is Verdict.RECORDED)
                    denied = [_settled("denied", Code.USER_DENIED)] if decision.verdict == "deny" else []
                    return verdict, await self._calls.write(connection, record, Step([event, *denied]), now)
                verdict = Verdict.ALREADY_DECIDED
            if await connection.fetchval(_SQL["has_decision"], decision.decision_id):
                verdict = Verdict.REPEATED
            return verdict, record

    async def _lock(
        self, connection: Connection, request_id: str, approval_id: str, tenant: str, switches: Sequence[str]
    ) -> tuple[CallRecord, asyncpg.Record, datetime, Verdict]:
        """The call and its approval, locked until the transaction ends; the database's clock; and RECORDED while the
        approval waits for people, or why it does not. Its deadline does not pass while one of `switches` pauses it.
        Raises UnknownCall, and _UnknownApproval where that is not one of this tenant's call."""
        record, now = await self._calls.lock(connection, request_id)
        row = await connection.fetchrow(_SQL["lock_approval"], approval_id)
        if row is None or (row["tenant"], row["request_id"]) != (tenant, request_id):
            raise _UnknownApproval(approval_id)
        late = row["status"] == "open" and now >= row["expires_at"]
        paused = late and await connection.fetchval(_PAUSES, tenant, switches) is True
        return record, row, now, _stands(row, now, paused=paused)

    async def _judge(
        self, connection: Connection, row: asyncpg.Record, decision: HumanDecision, now: datetime
    ) -> Verdict:
        """Of a decision on what waits: whether it is about that action, this person's to make, and proven as it has to
        be. What was checked when they were asked is checked again here, where it takes effect."""
        if row["action_digest"] != decision.action_digest:
            return Verdict.STALE
        approval = await self._open(connection, row)
        theirs = await self._is_theirs(
            connection, approval, decision.approver, decision.verdict, now, on_behalf_of=decision.on_behalf_of
        )
        if not theirs:
            return Verdict.NOT_THEIRS
        if not decision.is_proven(approval.proof):
            return Verdict.NOT_PROVEN
        if decision.proof is not None and decision.proof.kind == "passkey":
            return Verdict.RECORDED if await accept(connection, decision) else Verdict.NOT_PROVEN
        return Verdict.RECORDED

    async def _is_theirs(
        self,
        connection: Connection,
        approval: Approval,
        username: str,
        verdict: Literal["approve", "deny"],
        now: datetime,
        *,
        on_behalf_of: str | None = None,
        any_right: bool = False,
    ) -> bool:
        """Whether the person may still decide so, by who they are now: by their own right, that of `on_behalf_of` where
        given, or any of those that others lent them."""
        person = await connection.fetchrow(_SQL["decider"], username, approval.tenant)
        if person is None:
            # No account: the signature alone says who it was, and that is a name all the same.
            signed = Standing(names=names_of(username), roles=approval.groups(now))
            return on_behalf_of is None and objection_to(signed, approval, now) is None
        standing = standing_of(person)
        if person["disabled_at"] is not None:
            return False
        if on_behalf_of is None and objection_to(standing, approval, now, verdict) is None:
            return True
        return any(
            objection_by(standing, each, approval, now, verdict) is None
            for each in standing.lent
            if any_right or each.username == on_behalf_of
        )

    async def _approvers(self, connection: Connection, row: asyncpg.Record, people: int) -> int:
        """How many different people have approved it, as far as that matters where `people` have to."""
        if people == 1:
            return 1
        rows = await connection.fetch(_SQL["approved_by"], row["approval_id"])
        return how_many([frozenset(each["persons"]) for each in rows])

    async def _insert_decision(
        self, connection: Connection, record: CallRecord, event: PersonDecided, now: datetime
    ) -> bool:
        """Whether it was this person's first on the approval."""
        key = await self._keys.for_subject(connection, record.tenant, record.details.call.binding.customer_id)
        columns = decision_columns(event, record.tenant, record.request_id, now)
        body = body_of(event).model_dump_json().encode()
        sealed = key.seal(body, decision_context(record.tenant, event.decision_id))
        inserted = await connection.fetchval(_SQL["insert_decision"], *columns.values(), key.key_id, sealed)
        return inserted is not None

    async def amend(
        self, approval: Approval, step: StepFunction, switches: Sequence[str] = ()
    ) -> tuple[Verdict, CallRecord | None]:
        """Let `step` (pure) change the call that waits for this approval, and ask people about that instead.

        RECORDED, or why it can no longer be changed, as for a decision.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            record, _, now, verdict = await self._lock(
                connection, approval.request_id, approval.approval_id, approval.tenant, switches
            )
            change = step(record, now) if verdict is Verdict.RECORDED else None
            if change is None:
                return verdict, record
            return verdict, await self._calls.write(connection, record, change, now)

    async def extend(
        self, approval: Approval, until: datetime, *, by: str, reason: str, switches: Sequence[str] = ()
    ) -> Verdict:
        """Give people more time: until `until`, in whole seconds, which is later than now and than the deadline. They
        are warned before that one, as they would have been before the first.

        `by` is a person who may deny it at least. RECORDED; EXPIRED where the deadline has passed, as for a decision;
        ALREADY_DECIDED; NOT_THEIRS; TOO_FAR; or STALE where the deadline is as late already.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            record, row, now, verdict = await self._lock(
                connection, approval.request_id, approval.approval_id, approval.tenant, switches
            )
            if verdict is Verdict.RECORDED:
                shown = await self._open(connection, row)
                if not await self._is_theirs(connection, shown, by, "deny", now, any_right=True):
                    verdict = Verdict.NOT_THEIRS
            if verdict is Verdict.RECORDED and until > now + MOST_AHEAD:
                verdict = Verdict.TOO_FAR
            if verdict is Verdict.RECORDED and until <= max(row["expires_at"], now):
                verdict = Verdict.STALE
            if verdict is Verdict.RECORDED:
                event = ApprovalExtended(
                    approval_id=approval.approval_id, principal=by, expires_at=until, reason=reason
                )
                await self._calls.write(connection, record, Step([event]), now)
            return verdict

    async def reject(self, request_id: str, approval_id: str, because: str) -> CallRecord:
        """Record that something claimed to be a decision and was not."""

        def step(record: CallRecord, now: datetime) -> Step:
            return Step([DecisionRejected(approval_id=approval_id, because=because)])

        return (await self._calls.advance(request_id, step))[0]

    async def expire(self, request_id: str) -> CallRecord:
        """Close the approval as expired when its deadline has passed undecided; the call as it then is."""

        def step(record: CallRecord, now: datetime) -> Step | None:
            if record.status != "pending_approval" or record.approval_id is None:
                return None
            return Step([ApprovalExpired(approval_id=record.approval_id), _settled("expired", Code.APPROVAL_EXPIRED)])

        return (await self._close(request_id, step))[0]

    async def withdraw(self, request_id: str, principal: str) -> tuple[CallRecord, bool]:
        """Withdraw a parked call; whether it was this that closed it."""

        def step(record: CallRecord, now: datetime) -> Step | None:
            if record.status != "pending_approval":
                return None
            return Step([CallCancelled(principal=principal), _settled("cancelled", Code.CANCELLED)])

        return await self._close(request_id, step)

    async def _close(self, request_id: str, step: StepFunction) -> tuple[CallRecord, bool]:
        """Advance unless a decision was recorded first: (the call as it then is, whether this closed it)."""
        async with self._pool.acquire() as connection, connection.transaction():
            record, now = await self._calls.lock(connection, request_id)
            change = step(record, now)
            if change is None or record.approval_id is None:
                return record, False
            row = await connection.fetchrow(_SQL["lock_approval"], record.approval_id)
            if row is None or row["status"] != "open":
                return record, False
            if isinstance(change.events[0], ApprovalExpired) and now < row["expires_at"]:
                return record, False
            return await self._calls.write(connection, record, change, now), True

    async def get(self, tenant: str, approval_id: str) -> Approval | None:
        """The approval with its decisions; None when there is none of this tenant."""
        async with self._pool.acquire() as connection:
            row = await connection.fetchrow(_SQL["read_approval"], approval_id, tenant)
            if row is None:
                return None
            claim = claim_in(row)
            return (await self.open_all(connection, [row], {} if claim is None else {approval_id: claim}))[0]

    async def find(self, approval_id: str) -> Approval | None:
        """The approval, whichever tenant's of those that can be seen here."""
        tenant = await self._pool.fetchval(_SQL["tenant_of_approval"], approval_id)
        return None if tenant is None else await self.get(tenant, approval_id)

    async def requested_at(self, approval_id: str) -> datetime | None:
        """When people were asked for it."""
        return await self._pool.fetchval(_SQL["requested_at"], approval_id)

    async def of_request(self, tenant: str, request_id: str) -> str | None:
        """The id of the newest approval of a tenant's call."""
        return await self._pool.fetchval(_SQL["approval_of_request"], request_id, tenant)

    async def granted_by(self, approval_id: str) -> list[tuple[str, datetime]]:
        """The signed decisions of an approval in order, each with when it was recorded, by the database's clock."""
        async with self._pool.acquire() as connection:
            rows = await connection.fetch(_SQL["decisions_on"], [approval_id])
            return [((await self._decision_body(connection, row)).token, row["decided_at"]) for row in rows]

    async def persons(self, tenant: str, usernames: Sequence[str]) -> dict[str, str]:
        """Username -> person, of the accounts that there are."""
        rows = await self._pool.fetch(_SQL["persons"], tenant, usernames)
        return {row["username"]: row["person_id"] for row in rows}

    async def closed(
        self, tenant: str, *, after: tuple[datetime, str] | None, tool: str | None, limit: int
    ) -> list[Approval]:
        """What no longer waits, newest first."""
        async with self._pool.acquire() as connection:
            rows = await connection.fetch(_SQL["closed_approvals"], tenant, *(after or (_FAR, "")), tool, limit)
            return await self.open_all(connection, rows)

    async def queue(self, tenant: str) -> Queue:
        row = await self._pool.fetchrow(_SQL["queue"], tenant)
        return Queue(**row) if row else Queue(0, 0, None)

    async def viewed(self, approval: Approval, viewer: str) -> None:
        """Record that a person opened the page while it waits (once per person)."""
        if await self._pool.fetchval(_SQL["has_viewed"], approval.approval_id, viewer):
            return
        async with self._pool.acquire() as connection, connection.transaction():
            record, now = await self._calls.lock(connection, approval.request_id)
            event = ApprovalViewed(approval_id=approval.approval_id, viewer=viewer)
            if await connection.fetchval(_SQL["insert_view"], event.approval_id, record.tenant, viewer, now):
                await self._calls.write(connection, record, Step([event]), now)

    async def undelivered(self, seconds: float) -> list[Undelivered]:
        """Decisions recorded at least so long ago whose call has not moved on."""
        async with self._pool.acquire() as connection:
            rows = await connection.fetch(_SQL["undelivered_decisions"], seconds)
            return [
                Undelivered(
                    row["decision_id"],
                    row["approval_id"],
                    (await self._decision_body(connection, row)).token,
                    row["workflow_id"],
                )
                for row in rows
            ]

    async def open_all(
        self,
        connection: Connection,
        rows: Sequence[asyncpg.Record],
        claims: Mapping[str, ClaimedBy] | None = None,
    ) -> list[Approval]:
        """Rows as what people are shown, with their decisions. `claims`: who reads which, where that was read."""
        keys = await self._keys.left(connection, {row["key_id"] for row in rows if row["erased_at"] is None})
        approvals = [
            erased_card(row) if (key := keys.get(row["key_id"])) is None else open_card(row, key) for row in rows
        ]
        waiting = [approval.approval_id for approval in approvals if approval.status == "open"]
        if claims is None:
            claims = await claims_on(connection, waiting)
        decided = [approval.approval_id for approval in approvals if approval.status != "open" or approval.people > 1]
        rows = await connection.fetch(_SQL["decisions_on"], decided) if decided else []
        gone = {approval.approval_id for approval in approvals if approval.erased}
        bodies = [
            (row, _NOTHING if row["approval_id"] in gone else await self._decision_body(connection, row))
            for row in rows
        ]
        return [
            approval.model_copy(
                update={
                    "claimed_by": claims.get(approval.approval_id),
                    "decisions": tuple(
                        _decision(approval, row, body)
                        for row, body in bodies
                        if row["approval_id"] == approval.approval_id
                    ),
                }
            )
            for approval in approvals
        ]

    async def _decision_body(self, connection: Connection, row: asyncpg.Record) -> DecisionBody:
        key = await self._keys.by_id(connection, row["key_id"])
        return open_decision(row, key)

    async def _open(self, connection: Connection, row: asyncpg.Record) -> Approval:
        return open_card(row, await self._keys.by_id(connection, row["key_id"]))


def _decision(approval: Approval, row: asyncpg.Record, body: DecisionBody) -> HumanDecision:
    """A recorded decision; it was accepted, so it bound this approval's action."""
    return HumanDecision(
        decision_id=row["decision_id"],
        approval_id=approval.approval_id,
        request_id=approval.request_id,
        tenant=approval.tenant,
        action_digest=approval.action_digest,
        policy_version=approval.policy_version,
        approver=row["approver"],
        verdict=row["verdict"],
        reason=body.reason,
        decided_at=row["decided_at"],
        proof=body.proof,
        on_behalf_of=row["on_behalf_of"],
    )


def _stands(row: asyncpg.Record, now: datetime, *, paused: bool) -> Verdict:
    """RECORDED while it waits for people."""
    passed = now >= row["expires_at"] and not paused
    if row["status"] == "expired" or (row["status"] == "open" and passed):
        return Verdict.EXPIRED
    return Verdict.RECORDED if row["status"] == "open" else Verdict.ALREADY_DECIDED


def _decided(decision: HumanDecision, token: str, through: Through | None, *, enough: bool) -> PersonDecided:
    event = ApprovalDenied
    if decision.verdict == "approve":
        event = ApprovalGranted if enough else ApprovalSupported
    return event(
        approval_id=decision.approval_id,
        decision_id=decision.decision_id,
        approver=decision.approver,
        reason=decision.reason,
        action_digest=decision.action_digest,
        token=token,
        on_behalf_of=decision.on_behalf_of,
        through=through,
        proof=decision.proof,
    )


def _settled(status: Status, code: Code) -> CallSettled:
    return CallSettled(status=status, code=code)
