"""Temporal workers: which queue, which activities, and how they stop."""

from datetime import timedelta

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import (
    PollerBehaviorAutoscaling,
    UnsandboxedWorkflowRunner,
    Worker,
    WorkerDeploymentConfig,
    WorkflowRunner,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.all import Activity, effect_activities, workflow_activities
from activities.services import Services
from schemas.tools import Queue, queue_name
from workflows.notify import Notify
from workflows.preview import Preview
from workflows.recheck import Recheck
from workflows.tool_call import ToolCall

WORKFLOWS: list[type] = [ToolCall, Preview, Recheck, Notify]
# As long as any attempt may take: what was begun is finished before the process stops, and no outcome is lost by it.
GRACE = timedelta(seconds=60)
# Workflows kept in memory, of some 150 KB each: those that are under way, and what was lately parked. Another one is
# replayed from its history when it goes on.
CACHED = 500


def workflow_sandbox() -> WorkflowRunner:
    """Runs workflow code so that what is not deterministic fails at once. For replays and tests: it loads the module of
    a workflow anew for each one, which is a fifth of what a call costs."""
    return SandboxedWorkflowRunner(
        restrictions=SandboxRestrictions.default.with_passthrough_modules("pydantic", "pydantic_core", "schemas")
    )


def workflow_worker(
    client: Client,
    services: Services,
    *,
    build_id: str = "",
    max_cached_workflows: int = CACHED,
    runner: WorkflowRunner | None = None,
) -> Worker:
    """Works off workflows, with their local activities. Those that begin on a worker with a `build_id` stay with it.
    `runner` says how their code is run; without one, as it is."""
    return _worker(
        client,
        services.task_queue,
        [*workflow_activities(services)],
        deployment_of(services.task_queue, build_id),
        workflows=WORKFLOWS,
        max_cached_workflows=max_cached_workflows,
        runner=runner,
    )


def effect_worker(client: Client, services: Services, queue: Queue, *, build_id: str = "") -> Worker:
    """Sends and looks up the effects of one queue, with that queue's credential, for workflows of its `build_id`."""
    task_queue = services.task_queue
    return _worker(
        client, queue_name(task_queue, queue), [*effect_activities(services)], deployment_of(task_queue, build_id)
    )


def deployment_of(task_queue: str, build_id: str) -> WorkerDeploymentVersion | None:
    """The version of the installation's Worker Deployment, which is called as its task queue; None without versions.

    https://docs.temporal.io/production-deployment/worker-deployments/worker-versioning
    """
    return WorkerDeploymentVersion(task_queue, build_id) if build_id else None


def _worker(
    client: Client,
    task_queue: str,
    activities: list[Activity],
    version: WorkerDeploymentVersion | None,
    *,
    workflows: list[type] | None = None,
    max_cached_workflows: int = 0,
    runner: WorkflowRunner | None = None,
) -> Worker:
    return Worker(
        client,
        task_queue=task_queue,
        workflows=workflows or [],
        activities=activities,
        workflow_runner=runner or UnsandboxedWorkflowRunner(),
        max_cached_workflows=max_cached_workflows,
        graceful_shutdown_timeout=GRACE,
        deployment_config=None
        if version is None
        else WorkerDeploymentConfig(version, True, default_versioning_behavior=VersioningBehavior.PINNED),
        # A lost worker's sticky queue holds its workflows up for this long.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
        workflow_task_poller_behavior=PollerBehaviorAutoscaling(minimum=1, maximum=20, initial=2),
        activity_task_poller_behavior=PollerBehaviorAutoscaling(minimum=1, maximum=20, initial=2),
    )
