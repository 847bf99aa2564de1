"""Alerts: what operators are told without having asked, written with the change of a call that they tell of."""

from dataclasses import dataclass
from datetime import datetime

from ledger.database import Pool
from ledger.queries import load
from schemas.codes import Status
from schemas.effects import AlertKind, ReviewReason

_SQL = load("alerts")


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that happened to a call, and how the call stands now; or to a channel that people are told by."""

    alert_id: int
    request_id: str | None
    kind: AlertKind
    at: datetime
    tool: str | None
    status: Status | None
    workflow_id: str | None
    review: ReviewReason | None
    channel: str | None


class Alerts:
    """The alerts of the ledger."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def open(self, tenant: str, limit: int) -> list[Alert]:
        """What no operator has seen to yet, newest first."""
        return [Alert(**row) for row in await self._pool.fetch(_SQL["open_alerts"], tenant, limit)]

    async def of(self, request_id: str) -> list[AlertKind]:
        """Every alert about a call, oldest first."""
        return [row["kind"] for row in await self._pool.fetch(_SQL["alerts_of"], request_id)]

    async def see(self, tenant: str, alert_id: int, operator: str) -> bool:
        """Mark as seen to; whether it was open."""
        return await self._pool.fetchval(_SQL["see_alert"], alert_id, tenant, operator) is True
