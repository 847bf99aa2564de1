"""Every way in which a call can go, played against a running service; and what its history looks like then."""

import secrets
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.testing import TimeSkipper

from schemas.codes import Code, Status
from schemas.decisions import Approval
from tests.service import Service, Started, until, working


async def _parked(service: Service, order: dict[str, Any]) -> tuple[Started, Approval]:
    """A call that rests in Temporal too: what comes while a task still runs costs one task more."""
    started, approval = await service.parked(order)

    async def waiting() -> bool | None:
        history = await started.handle.fetch_history()
        return True if "TIMER_STARTED" in names(history.events) else None

    await until(waiting)
    return started, approval


async def free(service: Service) -> Started:
    return await service.refund(await service.outside.order(), 4_999)


async def read(service: Service) -> Started:
    order = await service.outside.order()
    run = await service.open_run(order["customer_id"])
    return await service.start(*await service.input_for(run.run_id, {}, "lookup_orders"))


async def refused(service: Service) -> Started:
    return await service.refund(await service.outside.order(5_000), 6_000)


async def approved(service: Service) -> Started:
    started, approval = await _parked(service, await service.outside.order(50_000))
    await started.handle.signal("decide", service.decision(approval, "approve"))
    return started


async def approved_elsewhere(service: Service) -> Started:
    """By workers that send no effects beside their workflows, as where the queues are apart."""
    queue = f"tests-{secrets.token_hex(4)}"
    async with working(service.elsewhere(task_queue=queue, inline=False)) as apart:
        started = await approved(apart)
        await apart.finish(started)
    return started


async def denied(service: Service) -> Started:
    started, approval = await _parked(service, await service.outside.order(50_000))
    await started.handle.signal("decide", service.decision(approval, "deny", reason="not this time"))
    return started


async def withdrawn(service: Service) -> Started:
    started, _ = await _parked(service, await service.outside.order(50_000))
    await started.handle.signal("withdraw")
    return started


async def expired(service: Service) -> Started:
    """A day passes: in the database by moving the deadline, in the workflow by skipping its timer."""
    started, approval = await _parked(service, await service.outside.order(50_000))
    await service.core.ledger.system.execute(
        "UPDATE approvals SET expires_at = expires_at - interval '24 hours' WHERE approval_id = $1",
        approval.approval_id,
    )
    await TimeSkipper(service.temporal).fast_forward(started.handle)
    return started


async def voided(service: Service) -> Started:
    order = await service.outside.order(50_000)
    started, approval = await _parked(service, order)
    await service.outside.put_order({**order, "disputed": True})
    await started.handle.signal("decide", service.decision(approval, "approve"))
    return started


async def lost_answer(service: Service) -> Started:
    order = await service.outside.order()
    await service.outside.fault("commit_then_drop", order)
    return await service.refund(order, 4_999)


async def resent(service: Service) -> Started:
    order = await service.outside.order()
    await service.outside.fault("503", order)
    return await service.refund(order, 4_999)


async def approved_lost_answer(service: Service) -> Started:
    order = await service.outside.order(50_000)
    await service.outside.fault("commit_then_drop", order)
    started, approval = await _parked(service, order)
    await started.handle.signal("decide", service.decision(approval, "approve"))
    return started


@dataclass(frozen=True)
class Path:
    """How to walk it, how it ends, what the ledger has then, and what it costs at Temporal: events, billed actions."""

    walk: Callable[[Service], Awaitable[Started]]
    status: Status
    code: Code
    ledger: str
    history: int
    actions: int
    effects: int = 0
    sends: int | None = None
    """How often it was sent, where that is not once an effect."""


_PROPOSED = "call.proposed call.decided"
_PARKED = f"{_PROPOSED} approval.requested"

PATHS: dict[str, Path] = {
    "free": Path(
        free,
        "executed",
        Code.OK,
        f"{_PROPOSED} effect.intended effect.confirmed call.settled",
        history=6,
        actions=2,
        effects=1,
    ),
    "read": Path(read, "executed", Code.OK, f"{_PROPOSED} call.settled", history=6, actions=2),
    "refused": Path(refused, "refused", Code.REFUND_EXCEEDS_PAID, f"{_PROPOSED} call.settled", history=7, actions=3),
    "approved": Path(
        approved,
        "executed",
        Code.OK,
        f"{_PARKED} approval.granted effect.intended effect.confirmed call.settled",
        history=15,
        actions=7,
        effects=1,
    ),
    "approved_elsewhere": Path(
        approved_elsewhere,
        "executed",
        Code.OK,
        f"{_PARKED} approval.granted effect.intended effect.confirmed call.settled",
        history=20,
        actions=7,
        effects=1,
    ),
    "denied": Path(
        denied, "denied", Code.USER_DENIED, f"{_PARKED} approval.denied call.settled", history=15, actions=7
    ),
    "withdrawn": Path(
        withdrawn, "cancelled", Code.CANCELLED, f"{_PARKED} call.cancelled call.settled", history=15, actions=7
    ),
    "expired": Path(
        expired, "expired", Code.APPROVAL_EXPIRED, f"{_PARKED} approval.expired call.settled", history=14, actions=6
    ),
    "voided": Path(
        voided,
        "refused",
        Code.APPROVAL_VOID,
        f"{_PARKED} approval.granted approval.voided call.settled",
        history=15,
        actions=7,
    ),
    "lost_answer": Path(
        lost_answer,
        "executed",
        Code.OK,
        f"{_PROPOSED} effect.intended effect.unknown effect.inspected effect.confirmed call.settled",
        history=14,
        actions=5,
        effects=1,
    ),
    # Looked at when it is 0, 1 and 2 seconds old, and then absent.
    "resent": Path(
        resent,
        "executed",
        Code.OK,
        f"{_PROPOSED} effect.intended effect.unknown effect.inspected effect.inspected effect.inspected"
        " effect.intended effect.confirmed call.settled",
        history=42,
        actions=10,
        effects=1,
        sends=2,
    ),
    "approved_lost_answer": Path(
        approved_lost_answer,
        "executed",
        Code.OK,
        f"{_PARKED} approval.granted effect.intended effect.unknown effect.inspected effect.confirmed call.settled",
        history=22,
        actions=9,
        effects=1,
    ),
}


# What skipping time adds.
_SKIPPING = ("WORKFLOW_EXECUTION_OPTIONS_UPDATED", "WORKFLOW_EXECUTION_TIME_SKIPPING_TRANSITIONED")


def names(events: Any) -> list[str]:
    """The types of a history's events, short (`TIMER_STARTED`), without those of skipped time."""
    found = [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in events]
    return [name for name in found if name not in _SKIPPING]


def steps(events: Iterable[HistoryEvent]) -> list[Payload]:
    """The summary, as it is stored, of every activity and timer."""
    found: list[Payload] = []
    for event in events:
        local = event.marker_recorded_event_attributes.marker_name == "core_local_activity"
        if local or names([event]) in (["ACTIVITY_TASK_SCHEDULED"], ["TIMER_STARTED"]):
            found.append(event.user_metadata.summary)
    return found
