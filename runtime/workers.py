"""Temporal workers: which queue, which activities, and how they stop."""

from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import PollerBehaviorAutoscaling, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.all import Activity, effect_activities, workflow_activities
from activities.services import Services
from schemas.tools import Queue
from workflows.notify import Notify
from workflows.preview import Preview
from workflows.recheck import Recheck
from workflows.tool_call import ToolCall

WORKFLOWS: list[type] = [ToolCall, Preview, Recheck, Notify]
# Longer than the total deadline of an exchange: what was begun is finished before the process stops.
_GRACE = timedelta(seconds=20)


def workflow_runner() -> SandboxedWorkflowRunner:
    """Runs workflow code so that what is not deterministic fails at once."""
    return SandboxedWorkflowRunner(
        restrictions=SandboxRestrictions.default.with_passthrough_modules("pydantic", "pydantic_core", "schemas")
    )


def workflow_worker(client: Client, services: Services, *, max_cached_workflows: int = 1000) -> Worker:
    """Works off workflows, with their local activities."""
    return _worker(
        client,
        services.task_queue,
        [*workflow_activities(services)],
        workflows=WORKFLOWS,
        max_cached_workflows=max_cached_workflows,
    )


def effect_worker(client: Client, services: Services, queue: Queue) -> Worker:
    """Sends and looks up the effects of one queue, with that queue's credential."""
    return _worker(client, f"{services.task_queue}-{queue}", [*effect_activities(services)])


def _worker(
    client: Client,
    task_queue: str,
    activities: list[Activity],
    *,
    workflows: list[type] | None = None,
    max_cached_workflows: int = 0,
) -> Worker:
    return Worker(
        client,
        task_queue=task_queue,
        workflows=workflows or [],
        activities=activities,
        workflow_runner=workflow_runner(),
        max_cached_workflows=max_cached_workflows,
        graceful_shutdown_timeout=_GRACE,
        # A lost worker's sticky queue holds its workflows up for this long.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
        workflow_task_poller_behavior=PollerBehaviorAutoscaling(minimum=1, maximum=20, initial=2),
        activity_task_poller_behavior=PollerBehaviorAutoscaling(minimum=1, maximum=20, initial=2),
    )
