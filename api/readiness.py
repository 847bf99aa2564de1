"""What a process is told of beside its own readiness: whether others do their part."""

import asyncio
import time
from collections.abc import Awaitable

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from ledger.ledger import Ledger
from schemas.tools import WORKER_QUEUES, queue_name

SEALED_WITHIN = 60.0
"""After so many seconds an event should be sealed; the sealer takes a second."""
_ANSWERED_WITHIN = 2.0
_KNOWN_FOR = 5.0
# A poll lasts a minute at most, and Temporal remembers a poller for five.
_POLLED_WITHIN = 90.0


class Others:
    """Remembers for a few seconds what it found, so that the probes of many processes cost the servers little."""

    def __init__(self) -> None:
        self._found: dict[str, object] = {}
        self._until = 0.0

    async def look(self, ledger: Ledger, temporal: Client, task_queue: str) -> dict[str, object]:
        """`pollers`: by queue, whether a worker asks for its tasks. `sealed`: whether events are sealed in time. What
        cannot be asked does not hold."""
        if time.monotonic() >= self._until:
            queues = {each: queue_name(task_queue, each) for each in WORKER_QUEUES}
            sealed, *polled = await asyncio.gather(
                holds(_sealed(ledger)), *(holds(_polled(temporal, *each)) for each in queues.items())
            )
            self._found = {"pollers": dict(zip(queues, polled, strict=True)), "sealed": sealed}
            self._until = time.monotonic() + _KNOWN_FOR
        return self._found


async def holds(check: Awaitable[bool]) -> bool:
    """What it says in time, else no."""
    try:
        return await asyncio.wait_for(check, _ANSWERED_WITHIN)
    except Exception:  # noqa: BLE001
        # Whatever went wrong, the answer is no; its text stays here.
        return False


async def _sealed(ledger: Ledger) -> bool:
    return not await ledger.seals.late(SEALED_WITHIN)


async def _polled(temporal: Client, queue: str, name: str) -> bool:
    kind = "WORKFLOW" if queue == "workflows" else "ACTIVITY"
    asked = DescribeTaskQueueRequest(
        namespace=temporal.namespace,
        task_queue=TaskQueue(name=name),
        task_queue_type=TaskQueueType.Value(f"TASK_QUEUE_TYPE_{kind}"),
    )
    found = await temporal.workflow_service.describe_task_queue(asked)
    now = time.time()
    return any(now - each.last_access_time.ToSeconds() < _POLLED_WITHIN for each in found.pollers)
