"""The part of Temporal's client that the service uses, on the server of a history."""

from dataclasses import dataclass, field
from typing import Any, cast

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from tests.model.temporal import Execution, Server, signal_job

_CLOSED = {"completed": WorkflowExecutionStatus.COMPLETED, "failed": WorkflowExecutionStatus.FAILED}


@dataclass(frozen=True)
class _Described:
    status: WorkflowExecutionStatus


@dataclass
class StandIn:
    """Looks like a client. `away`: the server cannot be reached."""

    server: Server
    away: bool = field(default=False)

    @property
    def client(self) -> Client:
        return cast(Client, self)

    def get_workflow_handle(self, workflow_id: str) -> "_Handle":
        return _Handle(self, workflow_id)

    async def start_workflow(
        self,
        type_: str,
        argument: Any,
        *,
        id: str,  # noqa: A002 - Temporal's name
        id_reuse_policy: WorkflowIDReusePolicy,
        id_conflict_policy: WorkflowIDConflictPolicy = WorkflowIDConflictPolicy.UNSPECIFIED,
        start_signal: str | None = None,
        **others: Any,
    ) -> None:
        self.reached()
        found = self.server.executions.get(id)
        if found is not None and found.status == "running":
            if id_conflict_policy is not WorkflowIDConflictPolicy.USE_EXISTING:
                raise WorkflowAlreadyStartedError(id, type_)
            if start_signal is not None:
                self.server.signal(found, start_signal)
            return
        only_failed = id_reuse_policy is WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
        if found is not None and only_failed and found.status != "failed":
            raise WorkflowAlreadyStartedError(id, type_)
        self.server.start(type_, argument, id, *([signal_job(start_signal)] if start_signal else []))

    def reached(self) -> None:
        if self.away:
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")

    def running(self, workflow_id: str) -> Execution:
        self.reached()
        found = self.server.executions.get(workflow_id)
        if found is None or found.status != "running":
            raise RPCError("not running", RPCStatusCode.NOT_FOUND, b"")
        return found


@dataclass(frozen=True)
class _Handle:
    on: StandIn
    workflow_id: str

    async def signal(self, name: str, *arguments: Any) -> None:
        self.on.server.signal(self.on.running(self.workflow_id), name, *arguments)

    async def start_update(self, name: str, argument: Any, *, id: str, **others: Any) -> None:  # noqa: A002
        self.on.server.update(self.on.running(self.workflow_id), name, id, argument)

    async def describe(self) -> _Described:
        self.on.reached()
        found = self.on.server.executions.get(self.workflow_id)
        if found is None:
            raise RPCError("unknown", RPCStatusCode.NOT_FOUND, b"")
        return _Described(_CLOSED.get(found.status, WorkflowExecutionStatus.RUNNING))
