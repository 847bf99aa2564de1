"""Outcomes that could not be found out, settled by people on evidence of their own."""

import enum
from datetime import datetime, timedelta

from pydantic import JsonValue

from ledger.calls import Calls
from ledger.database import Pool
from ledger.queries import load
from ledger.records import CallRecord, Step
from schemas.base import Model
from schemas.codes import Code
from schemas.effects import ReviewReason
from schemas.events import CallSettled, Event, ReviewConcluded
from schemas.replies import Explanation

_SQL = load("alerts")
# What a person settled is compared with what the remote system says for as long as it may still say otherwise.
_RECHECK_AFTER = timedelta(days=1)


class Conclusion(Model):
    """What an operator found out. `result` is the tool's, for an effect that happened; `done` its sentence.

    `because` is why they were asked: when that has changed meanwhile, they found out about something else.
    """

    operator: str
    because: ReviewReason
    happened: bool
    evidence: str
    remote_id: str | None = None
    result: dict[str, JsonValue] | None = None
    done: str = ""


class Settled(enum.Enum):
    """What became of a conclusion."""

    RECORDED = "recorded"
    NOT_IN_REVIEW = "not_in_review"
    """Somebody else settled it, it was found out after all, or it is in review for another reason now."""


class Reviews:
    """Settles what needs review."""

    def __init__(self, pool: Pool, calls: Calls) -> None:
        self._pool = pool
        self._calls = calls

    async def conclude(self, request_id: str, conclusion: Conclusion) -> tuple[Settled, CallRecord]:
        """Settle a call in review, unless it has been settled by now. Raises UnknownCall."""
        async with self._pool.acquire() as connection, connection.transaction():
            record, now = await self._calls.lock(connection, request_id)
            if record.review != conclusion.because or record.settled or record.operation_id is None:
                return Settled.NOT_IN_REVIEW, record
            step = _concluded(record.operation_id, conclusion, now)
            await connection.execute(_SQL["see_alerts_of"], request_id, conclusion.operator)
            return Settled.RECORDED, await self._calls.write(connection, record, step, now)


def _concluded(operation_id: str, conclusion: Conclusion, now: datetime) -> Step:
    concluded: Event = ReviewConcluded(
        operation_id=operation_id,
        operator=conclusion.operator,
        happened=conclusion.happened,
        remote_id=conclusion.remote_id,
        evidence=conclusion.evidence,
    )
    said = Explanation(values={"done": conclusion.done}) if conclusion.happened else Explanation()
    settled = CallSettled(
        status="executed" if conclusion.happened else "failed",
        code=Code.OK if conclusion.happened else Code.REMOTE_REFUSED,
        explanation=said,
        result=conclusion.result if conclusion.happened else None,
        recheck_at=now + _RECHECK_AFTER,
    )
    return Step([concluded, settled])
