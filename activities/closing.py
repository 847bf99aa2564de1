"""What ends a parked call without an effect: a denial, the deadline, a withdrawal. Local activities, all of them."""

from datetime import UTC, datetime, timedelta

from opentelemetry.trace import Span
from temporalio import activity

from activities.decisions import Decisions
from activities.diagnosing import followed_step
from activities.effects import Effects, switches_of
from activities.services import Services
from activities.tracing import describe, step
from ledger.records import CallRecord
from schemas.calls import CallRef, ExecuteRequest, Progress

_LOOK_AGAIN_AFTER = timedelta(minutes=1)


class Closing:
    """Closes parked calls, unless a decision was recorded first: then the call goes on as that decided."""

    def __init__(self, services: Services, decisions: Decisions, effects: Effects) -> None:
        self._services = services
        self._decisions = decisions
        self._effects = effects

    @activity.defn(name="deny")
    async def deny(self, request: ExecuteRequest) -> Progress:
        """Record a denial that was delivered (or find it recorded). `hold` when it is not a valid decision."""
        async with followed_step(self._services, "deny", request.request_id) as account:
            with step("counterseal.deny", request.request_id) as span:
                record = await self._services.here.calls.read(request.request_id)
                account.about(record)
                if request.token is not None and not record.settled:
                    record = await self._decisions.take(record, request.approval_id, request.token)
                self._describe(span, record)
                if record.status == "denied":
                    await self._effects.waited(record, record.approval_id, record.updated_at, request.decided_in)
            if record.status == "denied":
                await account.ended(record)
            return self._effects.resume(record)

    @activity.defn(name="expire")
    async def expire(self, request: CallRef) -> Progress:
        """The deadline has passed: expiry never approves."""
        async with followed_step(self._services, "expire", request.request_id) as account:
            with step("counterseal.expire", request.request_id) as span:
                if paused := await self._paused(request.request_id):
                    return paused
                record = self._services.moved(await self._services.here.approvals.expire(request.request_id))
                account.about(record)
                self._describe(span, record)
                if record.status in ("denied", "expired"):
                    await self._effects.waited(record, record.approval_id, record.updated_at)
            if record.status in ("denied", "expired"):
                await account.ended(record)
            return await self._as_it_waits(record)

    async def _as_it_waits(self, record: CallRecord) -> Progress:
        """Where the call stands. When it still waits, its deadline was moved since the call was told of it."""
        progress = self._effects.resume(record)
        if progress.next != "hold" or record.approval_id is None:
            return progress
        approval = await self._services.here.approvals.get(record.tenant, record.approval_id)
        return progress if approval is None else progress.model_copy(update={"expires_at": approval.expires_at})

    async def _paused(self, request_id: str) -> Progress | None:
        """Where a switch that is off pauses the deadline: look again in a while. It is prolonged when that ends."""
        record = await self._services.here.calls.read(request_id)
        entry = self._services.catalog.get(record.tool)
        if entry is None or record.status != "pending_approval":
            return None
        if not await self._services.here.permits.paused(record.tenant, switches_of(record, entry)):
            return None
        later = datetime.now(UTC) + _LOOK_AGAIN_AFTER
        return self._effects.resume(record).model_copy(update={"expires_at": later})

    @activity.defn(name="withdraw")
    async def withdraw(self, request: CallRef) -> Progress:
        """The requester took the call back."""
        with step("counterseal.withdraw", request.request_id) as span:
            record, _ = await self._services.here.approvals.withdraw(request.request_id, "requester")
            self._describe(span, record)
            if record.status == "cancelled":
                await self._effects.waited(record, record.approval_id, record.updated_at)
            return self._effects.resume(self._services.moved(record))

    def _describe(self, span: Span, record: CallRecord) -> None:
        entry = self._services.catalog.get(record.tool)
        describe(span, record, entry and entry.manifest)
