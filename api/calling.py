"""From a validated call to its reply: start the workflow, wait for committed state, say what it is."""

from datetime import timedelta
from typing import get_args

import structlog
from opentelemetry import trace
from pydantic import JsonValue
from temporalio.client import WorkflowFailureError
from temporalio.common import TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from activities.tracing import describe, describe_request
from api.context import Context
from api.problems import Refused, refuse
from ledger.data_keys import KeyDestroyed
from ledger.records import CallRecord
from schemas.calls import Binding, PreviewInput, ToolCallInput
from schemas.canonical import digest
from schemas.codes import Code, Status
from schemas.ids import key_hash, new_request_id, workflow_id
from schemas.replies import Explanation, Reply, reply_for
from schemas.tools import queue_name
from tools.catalog import Entry
from tools.protocol import Arguments, WriteArguments
from workflows.preview import Preview
from workflows.telling import details_of
from workflows.tool_call import search_attributes

_log = structlog.get_logger()
_RETRY_SECONDS = 2
_RECORDED_WITHIN = 1.0


async def call_tool(
    services: Context,
    binding: Binding,
    entry: Entry,
    arguments: Arguments,
    raw: dict[str, JsonValue],
    wait_seconds: float,
) -> Reply:
    """The call's state once it has settled or parked, at the latest after `wait_seconds`.

    The same key and arguments find the same call, for ever. Raises Refused (IDEMPOTENCY_CONFLICT, TEMPORARY_FAILURE).
    """
    tool, request_id = entry.manifest.name, new_request_id()
    key = arguments.idempotency_key if isinstance(arguments, WriteArguments) else request_id
    call_id = workflow_id(binding.tenant, tool, key_hash(key))
    started = await _start(
        services,
        call_id,
        ToolCallInput(run_id=binding.run_id, tool=tool, request_id=request_id, arguments=raw),
    )
    try:
        record = await _found(services, binding.tenant, call_id, wait_seconds, just_begun=started)
    except KeyDestroyed:
        # The key was that of a call whose customer was erased: it stands for nothing else, and for that no more.
        raise refuse(Code.IDEMPOTENCY_CONFLICT, Explanation(invalid_fields=("idempotency_key",))) from None
    if record is None:
        if started:
            return reply_for(Code.IN_PROGRESS, request_id)
        raise try_again()
    repeated = record.request_id != request_id
    if repeated and not _is_same(record, binding, raw):
        raise refuse(Code.IDEMPOTENCY_CONFLICT, Explanation(invalid_fields=("idempotency_key",)))
    describe(trace.get_current_span(), record, entry.manifest, deduplicated=repeated)
    return record.reply()


async def _found(
    services: Context, tenant: str, call_id: str, wait_seconds: float, *, just_begun: bool
) -> CallRecord | None:
    """The call once it rests, or after `wait_seconds`. One that was only just started is given a moment to be recorded:
    until then its request_id leads nowhere."""
    calls = services.ledger.of(tenant).calls
    record = await services.waiters.wait(call_id, wait_seconds, just_begun=just_begun)
    if record is not None:
        return record
    found = await calls.by_workflow_ids([call_id])
    if not found:
        await services.waiters.wait(call_id, _RECORDED_WITHIN, frozenset(get_args(Status)))
        found = await calls.by_workflow_ids([call_id])
    return found[0] if found else None


def _is_same(record: CallRecord, binding: Binding, raw: dict[str, JsonValue]) -> bool:
    """Whether the call that has this key already is this one: same arguments, asked by the same agent for the same
    customer. Nobody else learns of it, as with its request_id."""
    first = record.details.call.binding
    same_asker = (first.agent_id, first.customer_id) == (binding.agent_id, binding.customer_id)
    return same_asker and record.arguments_digest == digest(raw)


async def _start(services: Context, call_id: str, request: ToolCallInput) -> bool:
    """Whether this started the workflow; False when the call was there already."""
    try:
        await services.temporal.start_workflow(
            "ToolCall",
            request,
            id=call_id,
            task_queue=services.task_queue,
            # A workflow that failed admitted nothing, or the ledger knows its call: then the new one takes it up.
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
            search_attributes=TypedSearchAttributes(search_attributes(request.tool, request.run_id)),
            static_summary=request.tool,
            static_details=details_of(services.public_url, request.request_id),
            request_eager_start=services.eager_start,
        )
    except WorkflowAlreadyStartedError:
        return False
    except RPCError as problem:
        _log.warning("workflow_not_started", request_id=request.request_id, rpc_status=problem.status.name)
        raise try_again() from None
    return True


async def dry_run(services: Context, binding: Binding, entry: Entry, raw: dict[str, JsonValue]) -> Reply:
    """What the call would come to now. Takes no limit, creates no approval, touches nothing."""
    request_id = new_request_id()
    describe_request(trace.get_current_span(), request_id)
    try:
        return await services.temporal.execute_workflow(
            Preview.run,
            PreviewInput(
                run_id=binding.run_id,
                tool=entry.manifest.name,
                request_id=request_id,
                arguments=raw,
                queue=queue_name(services.task_queue, entry.manifest.queue),
            ),
            id=f"preview/{request_id}",
            task_queue=services.task_queue,
            execution_timeout=timedelta(seconds=30),
            static_summary=f"{entry.manifest.name} (dry run)",
        )
    except (RPCError, WorkflowFailureError):
        raise try_again() from None


def try_again() -> Refused:
    """For what could not be begun just now, and may be sent again under the same key."""
    return refuse(
        Code.TEMPORARY_FAILURE,
        Explanation(retry_after_seconds=_RETRY_SECONDS),
        headers={"Retry-After": str(_RETRY_SECONDS)},
    )
