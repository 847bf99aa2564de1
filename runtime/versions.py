"""Builds of the service that run side by side: which one new calls begin on, and which still have open calls.

They are versions of one Temporal Worker Deployment, which is called as the installation's task queue:
https://docs.temporal.io/production-deployment/worker-deployments/worker-versioning
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass

from google.protobuf.field_mask_pb2 import FieldMask
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.deployment.v1 import WorkerDeploymentVersion as Version
from temporalio.api.enums.v1 import VersionDrainageStatus
from temporalio.api.workflow.v1 import VersioningOverride, WorkflowExecutionOptions
from temporalio.api.workflowservice.v1 import (
    DescribeWorkerDeploymentRequest,
    DescribeWorkerDeploymentVersionRequest,
    SetWorkerDeploymentCurrentVersionRequest,
    UpdateWorkflowExecutionOptionsRequest,
)
from temporalio.client import Client, WorkflowHistory
from temporalio.service import RPCError, RPCStatusCode

from runtime.replaying import Replayed, replay
from schemas.tools import WORKER_QUEUES, queue_name

_ABSENT = (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION)
_PAUSE_SECONDS = 0.5
_PINNED = VersioningOverride.PINNED_OVERRIDE_BEHAVIOR_PINNED


class NotReadyError(Exception):
    """Workers of the build do not serve every queue. The text is ours."""


@dataclass(frozen=True, slots=True)
class Build:
    """One build: whether new calls begin on it, or ever did, and how many workflows of it are open."""

    build_id: str
    current: bool
    promoted: bool
    open: int
    drained: bool
    """No open workflow was seen by the server for a while, and none can begin."""


class Versions:
    """The builds of one installation."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self._client = client
        self._deployment = task_queue
        self._queues = {queue_name(task_queue, queue) for queue in WORKER_QUEUES}

    async def builds(self) -> list[Build]:
        """Every build that Temporal knows, the newest first; none where workers were never versioned."""
        asked = DescribeWorkerDeploymentRequest(namespace=self._client.namespace, deployment_name=self._deployment)
        try:
            info = (await self._client.workflow_service.describe_worker_deployment(asked)).worker_deployment_info
        except RPCError as problem:
            if problem.status is RPCStatusCode.NOT_FOUND:
                return []
            raise
        current = info.routing_config.current_deployment_version.build_id
        summaries = sorted(info.version_summaries, key=lambda each: each.create_time.ToNanoseconds(), reverse=True)
        return [
            Build(
                build_id=(build_id := each.deployment_version.build_id),
                current=build_id == current,
                promoted=each.HasField("first_activation_time"),
                open=(await self._client.count_workflows(self._open_on(build_id))).count,
                drained=each.drainage_status == VersionDrainageStatus.VERSION_DRAINAGE_STATUS_DRAINED,
            )
            for each in summaries
        ]

    async def promote(self, build_id: str, wait_seconds: float) -> None:
        """From now on new calls begin on this build. Raises NotReadyError when after so long its workers do not serve
        every queue: calls would wait there for nobody."""
        version = Version(deployment_name=self._deployment, build_id=build_id)
        await self._served(version, wait_seconds)
        await self._client.workflow_service.set_worker_deployment_current_version(
            SetWorkerDeploymentCurrentVersionRequest(
                namespace=self._client.namespace,
                deployment_name=self._deployment,
                build_id=build_id,
                identity=self._client.identity,
            )
        )

    async def take_over(self, build_id: str, into: str, limit: int) -> AsyncGenerator[Replayed]:
        """Move open workflows from a build to another, whose code this process runs: each one that its code replays.
        The others are told with their problem, and stay where they are."""
        async for replayed in replay(self._histories(build_id, limit), self._client.data_converter):
            if replayed.problem is None:
                await self._move(replayed.workflow_id, into)
            yield replayed

    async def _served(self, version: Version, wait_seconds: float) -> None:
        missing = self._queues
        try:
            async with asyncio.timeout(wait_seconds):
                while missing := self._queues - await self._queues_of(version):  # noqa: ASYNC110
                    await asyncio.sleep(_PAUSE_SECONDS)
        except TimeoutError:
            named = ", ".join(sorted(missing))
            raise NotReadyError(f"no worker of build {version.build_id} serves {named}") from None

    async def _queues_of(self, version: Version) -> set[str]:
        asked = DescribeWorkerDeploymentVersionRequest(namespace=self._client.namespace, deployment_version=version)
        try:
            found = await self._client.workflow_service.describe_worker_deployment_version(asked)
        except RPCError as problem:
            if problem.status in _ABSENT:
                return set()
            raise
        return {each.name for each in found.version_task_queues}

    async def _histories(self, build_id: str, limit: int) -> AsyncIterator[WorkflowHistory]:
        # Listed before any is moved, for the list is what moving changes.
        found = [each async for each in self._client.list_workflows(self._open_on(build_id), limit=limit)]
        for each in found:
            yield await self._client.get_workflow_handle(each.id, run_id=each.run_id).fetch_history()

    async def _move(self, workflow_id: str, into: str) -> None:
        version = Version(deployment_name=self._deployment, build_id=into)
        pinned = VersioningOverride.PinnedOverride(behavior=_PINNED, version=version)
        await self._client.workflow_service.update_workflow_execution_options(
            UpdateWorkflowExecutionOptionsRequest(
                namespace=self._client.namespace,
                workflow_execution=WorkflowExecution(workflow_id=workflow_id),
                workflow_execution_options=WorkflowExecutionOptions(
                    versioning_override=VersioningOverride(pinned=pinned)
                ),
                update_mask=FieldMask(paths=["versioning_override"]),
                identity=self._client.identity,
            )
        )

    def _open_on(self, build_id: str) -> str:
        return f"TemporalWorkerDeploymentVersion = '{self._deployment}:{build_id}' AND ExecutionStatus = 'Running'"


def stoppable(builds: Sequence[Build]) -> list[str]:
    """Builds whose workers nobody needs any more: another took their place, and no call is open on them. None where new
    calls begin on no build: what waits belongs to none yet, and runs on the one that is promoted."""
    current = any(each.current for each in builds)
    return [each.build_id for each in builds if current and each.promoted and not each.current and each.open == 0]
