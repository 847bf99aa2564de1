"""Calls from another Temporal workflow: `ToolCall` as its child, and its reply by HTTP.

The child is what waits, however long a person takes. Its own result is encrypted with the service's key, which no
caller has, so the parent leaves that unread and an activity of its worker asks the API for the reply. Import it in
`with workflow.unsafe.imports_passed_through()`.
"""

import asyncio
import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

from temporalio import activity, workflow
from temporalio.common import (
    RawValue,
    RetryPolicy,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import ApplicationError, ChildWorkflowError, WorkflowAlreadyStartedError

from counterseal_client.asynchronous import AsyncRun
from counterseal_client.errors import Misuse
from counterseal_client.models import KEY, Reply
from counterseal_client.steps import step_key

REPLY_ACTIVITY = "counterseal_reply"
_TOOL_NAME, _RUN_ID = (SearchAttributeKey.for_keyword(name) for name in ("ToolName", "AgentRunId"))
_ONE_ANSWER = timedelta(seconds=120)
_NEXT_LOOK, _LAST_LOOK = timedelta(seconds=2), timedelta(minutes=5)


class Replies:
    """The activity of the caller's worker: `Worker(activities=[Replies(…).reply])`. `run_of` finds the run of an id,
    with its token, so that no token is in a history."""

    def __init__(self, run_of: Callable[[str], AsyncRun]) -> None:
        self._run_of = run_of

    @activity.defn(name=REPLY_ACTIVITY)
    async def reply(self, asked: dict[str, Any]) -> dict[str, Any]:
        """How the call stands. It is made here where it was not made yet. Raises ApplicationError, to be repeated,
        while the service does not say; with a token that is no longer good that is until `run_of` has another one."""
        run = self._run_of(asked["run_id"])
        reply = await run.call(asked["tool"], asked["arguments"], idempotency_key=asked[KEY])
        if not reply.known or reply.retryable:
            raise ApplicationError("the service does not say how the call stands", type=reply.code)
        return reply.model_dump(mode="json", exclude_none=True)


async def call_tool(
    tool: str,
    arguments: dict[str, Any],
    *,
    step: str,
    run_id: str,
    tenant: str,
    scope: str | None = None,
    task_queue: str = "counterseal",
) -> Reply:
    """In a workflow: call a tool that writes, and wait until the call is over, whatever that takes.

    `tenant` is that of the run. `scope`: this workflow's id where it is not given, so that a step is one call in all of
    its runs. What the parent gives its child is in both their histories, as the parent's own codec leaves it. Raises
    Misuse and, after its retries, what the activity raises; a refusal is a reply.
    """
    key = step_key(scope or workflow.info().workflow_id, step)
    asked = {"run_id": run_id, "tool": tool, "arguments": arguments, KEY: key}
    call = {"run_id": run_id, "tool": tool, "arguments": {**arguments, KEY: key}}
    try:
        await workflow.execute_child_workflow(
            "ToolCall",
            {**call, "request_id": f"act_{workflow.random().getrandbits(128):032x}"},
            id=f"call/{tenant}/{tool}/{hashlib.sha256(key.encode()).hexdigest()}",
            task_queue=task_queue,
            result_type=RawValue,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
            # It is the service's call from here on: withdrawing it is asked of the API.
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
            search_attributes=TypedSearchAttributes(
                [SearchAttributePair(_TOOL_NAME, tool), SearchAttributePair(_RUN_ID, run_id)]
            ),
            static_summary=tool,
        )
    except WorkflowAlreadyStartedError:
        pass  # the step was done before
    except ChildWorkflowError:
        # Refused before it was recorded, or ended by an operator: the API says how it stands. But whoever is cancelled
        # waits no more.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
    reply, pause = await _reply(asked), _NEXT_LOOK
    while reply.pending:
        await workflow.sleep(pause, summary="Before the next look")
        reply, pause = await _reply(asked), min(pause * 2, _LAST_LOOK)
    return reply


async def _reply(asked: dict[str, Any]) -> Reply:
    answered = await workflow.execute_activity(
        REPLY_ACTIVITY,
        asked,
        result_type=dict[str, Any],
        start_to_close_timeout=_ONE_ANSWER,
        retry_policy=RetryPolicy(non_retryable_error_types=[Misuse.__name__]),
        summary="Ask for the reply",
    )
    return Reply.model_validate(cast("dict[str, Any]", answered))
