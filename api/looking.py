"""Telling Temporal to look again at what became of a call."""

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError, RPCStatusCode

from ledger.calls import CallOfEffect
from ledger.records import SETTLED
from schemas.calls import CallRef, RecheckInput
from schemas.ids import recheck_id
from schemas.tools import queue_name
from tools.catalog import Catalog
from workflows.telling import details_of


async def look_again(
    temporal: Client, catalog: Catalog, task_queue: str, call: CallOfEffect, *, public_url: str
) -> None:
    """Have the effect of a call looked at again, durably: once this returns Temporal has it. Safe to repeat.

    A call that is still open looks by itself, and is only told not to wait. `public_url` is where its page is. Raises
    RPCError when Temporal is away.
    """
    # The workflow of a settled call may not have ended yet; it does not look any more.
    if call.status not in SETTLED and await _told(temporal, call.workflow_id):
        return
    entry = catalog.get(call.tool)
    if entry is None:
        raise LookupError(f"there is no tool {call.tool}")
    await temporal.start_workflow(
        "Recheck",
        RecheckInput(call=CallRef(request_id=call.request_id), queue=queue_name(task_queue, entry.manifest.queue)),
        id=recheck_id(call.workflow_id),
        task_queue=task_queue,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        start_signal="look",
        static_summary=f"{call.tool} (looked at again)",
        static_details=details_of(public_url, call.request_id),
    )


async def _told(temporal: Client, workflow_id: str) -> bool:
    """Whether the call's workflow is running, and knows now."""
    try:
        await temporal.get_workflow_handle(workflow_id).signal("look")
    except RPCError as problem:
        if problem.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True
