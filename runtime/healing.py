"""What makes every open call end: decisions that were not delivered, and calls whose workflow is gone. Beside it, what
is kept for a time only is deleted after it."""

import asyncio
from datetime import UTC, datetime, timedelta

import structlog
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowUpdateRPCTimeoutOrCancelledError,
    WorkflowUpdateStage,
)
from temporalio.common import TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from activities.tracing import step
from api.looking import look_again
from ledger.ledger import Ledger
from runtime.telemetry import going_on
from schemas.calls import ToolCallInput
from schemas.decisions import SignedDecision
from tools.catalog import Catalog
from workflows.telling import details_of
from workflows.tool_call import search_attributes

_log = structlog.get_logger()
_PAGE = 500
_ACCEPTED_WITHIN = timedelta(seconds=5)
_START = (datetime(1970, 1, 1, tzinfo=UTC), "")


class Healer:
    """Run by any process, any number of times at once: everything it does is safe to repeat."""

    def __init__(
        self,
        ledger: Ledger,
        temporal: Client,
        catalog: Catalog,
        task_queue: str,
        *,
        public_url: str,
        settle_seconds: float = 5.0,
        diagnostics_days: int = 30,
    ) -> None:
        self._ledger = ledger
        self._temporal = temporal
        self._catalog = catalog
        self._task_queue = task_queue
        self._public_url = public_url
        self._settle_seconds = settle_seconds
        self._diagnostics_days = diagnostics_days

    async def run(self, *, every_seconds: float = 15.0) -> None:
        """Heal until cancelled. A database or server that is away is waited for."""
        while True:
            for work in (self.heal, self.recheck, self.prune):
                try:
                    await work()
                except Exception as problem:  # noqa: BLE001 - it must outlive whatever is away just now
                    _log.warning("healing_failed", work=work.__name__, error_type=type(problem).__name__)
            await asyncio.sleep(every_seconds)

    async def recheck(self) -> int:
        """Have settled effects that are due looked at again, for what no webhook said: how many."""
        due = await self._ledger.calls.to_recheck(_PAGE)
        for call in due:
            await look_again(self._temporal, self._catalog, self._task_queue, call, public_url=self._public_url)
        return len(due)

    async def prune(self) -> int:
        """Delete the diagnostics that were kept for long enough, and bodies of events: how many."""
        pruned = await self._ledger.pruner.prune()
        if pruned:
            _log.info("events_pruned", count=pruned)
        return await self._ledger.diagnostics.prune(self._diagnostics_days) + pruned

    async def heal(self) -> int:
        """One pass: how many workflows were started again."""
        started = 0
        cursor = _START
        while True:
            page = await self._ledger.calls.open_for(self._settle_seconds, cursor, _PAGE)
            for request_id, workflow_id, _, _ in page:
                if not await self._is_running(workflow_id):
                    started += await self._start_again(request_id, workflow_id)
            if len(page) < _PAGE:
                break
            cursor = (page[-1][3], page[-1][0])
        await self._deliver()
        return started

    async def _is_running(self, workflow_id: str) -> bool:
        try:
            described = await self._temporal.get_workflow_handle(workflow_id).describe()
        except RPCError as problem:
            if problem.status is RPCStatusCode.NOT_FOUND:
                return False
            raise
        return described.status is WorkflowExecutionStatus.RUNNING

    async def _start_again(self, request_id: str, workflow_id: str) -> bool:
        """The ledger says how far the call got; `admit` takes it up from there."""
        call = (await self._ledger.calls.read(request_id)).details.call
        run_id = call.binding.run_id
        try:
            with going_on(call.trace_id), step("counterseal.start_again", request_id):
                await self._temporal.start_workflow(
                    "ToolCall",
                    ToolCallInput(run_id=run_id, tool=call.tool, request_id=request_id, arguments=call.arguments),
                    id=workflow_id,
                    task_queue=self._task_queue,
                    id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                    search_attributes=TypedSearchAttributes(search_attributes(call.tool, run_id)),
                    static_summary=call.tool,
                    static_details=details_of(self._public_url, request_id),
                )
        except WorkflowAlreadyStartedError:
            return False
        _log.info("workflow_started_again", workflow_id=workflow_id)
        return True

    async def _deliver(self) -> None:
        """Deliver recorded decisions whose calls have not moved on.

        As updates, which Temporal knows by their id: repeated for as long as an effect's worker is away, they leave one
        trace in the history, where signals would fill it.
        """
        for waiting in await self._ledger.approvals.undelivered(self._settle_seconds):
            decision = SignedDecision(approval_id=waiting.approval_id, verdict="approve", token=waiting.token)
            try:
                handle = self._temporal.get_workflow_handle(waiting.workflow_id)
                await handle.start_update(  # pyright: ignore[reportUnknownMemberType]  # Temporal's overloads
                    "decide",
                    decision,
                    id=waiting.decision_id,
                    wait_for_stage=WorkflowUpdateStage.ACCEPTED,
                    rpc_timeout=_ACCEPTED_WITHIN,
                )
            except WorkflowUpdateRPCTimeoutOrCancelledError:
                _log.warning("decision_not_accepted", workflow_id=waiting.workflow_id)
            except RPCError as problem:
                if problem.status is not RPCStatusCode.NOT_FOUND:
                    raise
