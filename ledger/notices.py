"""The outbox of what people are told: written with the change that it tells of, and closed once it was told."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from ledger.database import Pool
from ledger.queries import load
from schemas.decisions import ApprovalStatus
from schemas.effects import AlertKind
from schemas.notices import NoticeProblem, NoticeState, Topic

_SQL = load("notices")
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Due:
    """What is due to be told and goes nowhere yet. `approval_status`, `requested_at` and `expires_at` are its
    approval's; `alert_channel` is the channel that its alert is about."""

    notice_id: str
    tenant: str
    topic: Topic
    tool: str | None
    approvers: str | None
    due_at: datetime
    approval_status: ApprovalStatus | None
    requested_at: datetime | None
    expires_at: datetime | None
    alert_channel: str | None


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to tell over one channel."""

    notice_id: str
    tenant: str
    topic: Topic
    request_id: str | None
    approval_id: str | None
    alert_id: int | None
    tool: str | None
    approvers: str | None
    at: datetime
    channel: str
    state: NoticeState
    attempts: int
    problem: NoticeProblem | None
    closed_at: datetime | None


@dataclass(frozen=True, slots=True)
class AlertAbout:
    """What an alert is about: a call, or a channel."""

    kind: AlertKind
    channel: str | None
    request_id: str | None


@dataclass(frozen=True, slots=True)
class Digest:
    """What waits for a group, and what became of its approvals within a day."""

    waiting: int
    oldest: datetime | None
    next_deadline: datetime | None
    expired: int
    approved: int
    denied: int


class Notices:
    """The notices of the ledger."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def route(self, decide: Callable[[Due], datetime | Sequence[str]]) -> int:
        """Let `decide` (pure) say of each notice that is due when to look at it again, or which channels it goes to:
        how many there were, a few hundred at most."""
        async with self._pool.acquire() as connection, connection.transaction():
            due = [Due(**row) for row in await connection.fetch(_SQL["due"], _AT_ONCE)]
            decided = {each.notice_id: decide(each) for each in due}
            later = {name: at for name, at in decided.items() if isinstance(at, datetime)}
            if later:
                await connection.execute(_SQL["postpone"], list(later), list(later.values()))
            now = {name: channels for name, channels in decided.items() if not isinstance(channels, datetime)}
            if now:
                await connection.execute(_SQL["route"], list(now), *_pairs(now))
            return len(due)

    async def unstarted(self, lost_after_seconds: float) -> list[str]:
        """The ids of those that are to be sent, and were never taken up or so long ago that they may be lost."""
        return [row["notice_id"] for row in await self._pool.fetch(_SQL["unstarted"], lost_after_seconds, _AT_ONCE)]

    async def started(self, notice_id: str) -> None:
        await self._pool.execute(_SQL["started"], notice_id)

    async def read(self, notice_id: str) -> Notice | None:
        """None when there is no such notice, or it goes nowhere yet."""
        row = await self._pool.fetchrow(_SQL["notice"], notice_id)
        return None if row is None or row["channel"] is None else Notice(**row)

    async def close(self, notice_id: str, state: Literal["delivered", "moot"]) -> None:
        """It was told, or is no longer worth telling; of one that is closed nothing changes."""
        await self._pool.execute(_SQL["close"], notice_id, state, 1 if state == "delivered" else 0)

    async def failed(self, notice_id: str, problem: NoticeProblem) -> None:
        """An attempt came to nothing."""
        await self._pool.execute(_SQL["failed"], notice_id, problem)

    async def give_up(self, notice_id: str) -> None:
        """Make no further attempt, and alert the operators of its tenant."""
        await self._pool.execute(_SQL["give_up"], notice_id)

    async def retry(self, notice_id: str, tenant: str | None = None) -> bool:
        """Have one that was given up sent again; whether there was one (of this tenant)."""
        return await self._pool.fetchval(_SQL["retry"], notice_id, tenant) is True

    async def undelivered(self, tenant: str, limit: int) -> list[Notice]:
        """What was given up, newest first."""
        return [Notice(**row) for row in await self._pool.fetch(_SQL["undelivered"], tenant, limit)]

    async def stuck(self, tenant: str, limit: int) -> list[Notice]:
        """What attempts have failed to tell so far, oldest first."""
        return [Notice(**row) for row in await self._pool.fetch(_SQL["stuck"], tenant, limit)]

    async def recent(self, *, tenant: str | None, state: NoticeState | None, limit: int) -> list[Notice]:
        """Newest first."""
        return [Notice(**row) for row in await self._pool.fetch(_SQL["recent"], tenant, state, limit)]

    async def prune(self, days: int) -> int:
        """Delete what was closed longer ago: how many."""
        return await self._pool.fetchval(_SQL["prune"], days)

    async def alert(self, tenant: str, alert_id: int) -> AlertAbout | None:
        row = await self._pool.fetchrow(_SQL["alert"], alert_id, tenant)
        return None if row is None else AlertAbout(**row)

    async def groups(self) -> list[tuple[str, str]]:
        """(tenant, group) of those that something waits for, or waited for within a day."""
        return [(row["tenant"], row["approvers"]) for row in await self._pool.fetch(_SQL["groups"])]

    async def add_digests(self, digests: Sequence[tuple[str, str, str]], day: date) -> None:
        """(tenant, group, channel) of digests to send; one that this day has already is left as it is."""
        tenants, groups, channels = ([each[n] for each in digests] for n in range(3))
        await self._pool.execute(_SQL["add_digests"], tenants, groups, channels, day)

    async def digest(self, tenant: str, group: str, at: datetime) -> Digest:
        """What waits for the group now, and what became of its approvals in the day before `at`."""
        row = await self._pool.fetchrow(_SQL["digest"], tenant, group, at)
        return Digest(**row) if row else Digest(0, None, None, 0, 0, 0)


def _pairs(routed: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """As the arrays that the statement unnests: notice ids, channels."""
    pairs = [(name, channel) for name, channels in routed.items() for channel in channels]
    return [name for name, _ in pairs], [channel for _, channel in pairs]
