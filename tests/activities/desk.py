"""The activities of a service, called as a worker calls them, without Temporal."""

import dataclasses
from typing import Any

from temporalio.testing import ActivityEnvironment

from activities.admitting import Admission
from activities.closing import Closing
from activities.decisions import Decisions
from activities.effects import Effects
from activities.inspecting import Inspecting
from ledger.records import CallRecord
from schemas.calls import CallRef, ExecuteRequest, Progress, ToolCallInput
from schemas.decisions import Approval
from tests.service import Service


@dataclasses.dataclass(frozen=True)
class Desk:
    """The activities of a service, called as a worker calls them."""

    service: Service

    @property
    def decisions(self) -> Decisions:
        return Decisions(self.service.services)

    @property
    def effects(self) -> Effects:
        return Effects(self.service.services, self.decisions)

    @property
    def inspecting(self) -> Inspecting:
        return Inspecting(self.service.services, self.effects)

    async def admit(self, request: ToolCallInput, workflow_id: str, *, attempt: int = 1) -> Progress:
        environment = ActivityEnvironment()
        environment.info = dataclasses.replace(environment.info, workflow_id=workflow_id, attempt=attempt)
        return await environment.run(Admission(self.service.services, self.effects).admit, request)

    async def refund(self, order: dict[str, Any], amount: int, **more: Any) -> Progress:
        return await self.admit(*await self.service.proposal(order, amount, **more))

    async def execute(self, request_id: str, approval: Approval | None = None, token: str | None = None) -> Progress:
        request = ExecuteRequest(
            request_id=request_id, approval_id=approval.approval_id if approval else None, token=token
        )
        return await (await self.service.activities_of(request_id)).run(self.effects.execute, request)

    async def inspect(self, request_id: str) -> Progress:
        asked = CallRef(request_id=request_id)
        return await (await self.service.activities_of(request_id)).run(self.inspecting.inspect, asked)

    async def resend(self, request_id: str) -> Progress:
        asked = CallRef(request_id=request_id)
        return await (await self.service.activities_of(request_id)).run(self.inspecting.resend, asked)

    async def recheck(self, request_id: str) -> Progress:
        asked = CallRef(request_id=request_id)
        return await (await self.service.activities_of(request_id)).run(self.inspecting.recheck, asked)

    async def deny(self, request_id: str, approval: Approval, token: str) -> Progress:
        closing = Closing(self.service.services, self.decisions, self.effects)
        request = ExecuteRequest(request_id=request_id, approval_id=approval.approval_id, token=token)
        return await (await self.service.activities_of(request_id)).run(closing.deny, request)

    async def record(self, request_id: str) -> CallRecord:
        return await self.service.core.ledger.calls.read(request_id)

    async def parked(self, order: dict[str, Any], amount: int = 25_000) -> Approval:
        progress = await self.refund(order, amount)
        return await self.service.approval(await self.record(progress.request_id))

    async def approved(self, approval: Approval) -> Progress:
        return await self.execute(approval.request_id, approval, self.token(approval))

    def token(self, approval: Approval, verdict: Any = "approve", **changes: Any) -> str:
        return self.service.decision(approval, verdict, **changes).token

    async def types(self, request_id: str) -> list[str]:
        return [event.type for _, event in await self.service.core.ledger.calls.events(request_id)]
