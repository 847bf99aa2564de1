"""Tasks: a call that waits, followed by the protocol's own means. A task's id is the call's request_id, its
state the call's: nothing is kept for it.

2026-07-28 has them as an extension, and the service decides when a call is one:
https://modelcontextprotocol.io/extensions/tasks. In 2025-11-25 the client asks for one:
https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks.
"""

from datetime import UTC, datetime
from typing import Any, Literal

from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CancelTaskRequestParams,
    GetTaskPayloadRequestParams,
    GetTaskRequestParams,
    RequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from api.asking import LONGEST_WAIT, progress, visible, withdraw
from api.mcp.answering import Caller, RequestContext, caller, or_error
from api.mcp.tools import result_of
from api.problems import Refused
from ledger.records import CallRecord
from schemas.codes import Status
from schemas.replies import Reply

EXTENSION = "io.modelcontextprotocol/tasks"
_RELATED = "io.modelcontextprotocol/related-task"
_OPEN: frozenset[Status] = frozenset({"pending_approval", "in_progress", "outcome_unknown"})
_POLL_MS = 5000


class UpdateTaskParams(RequestParams):
    """Nothing is ever asked of the client, so what it answers is not looked at."""

    task_id: str


def is_modern(ctx: RequestContext) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def takes_tasks(ctx: RequestContext) -> bool:
    """Whether the client said with this request that it may be answered with a task."""
    capabilities = ctx.session.client_capabilities
    return is_modern(ctx) and capabilities is not None and EXTENSION in (capabilities.extensions or {})


async def created(by: Caller, reply: Reply) -> dict[str, Any] | None:
    """The task of a call that is not over; None for one that is, that was tried out, or that is not recorded yet."""
    if reply.dry_run or reply.status not in _OPEN:
        return None
    try:
        call = await visible(by.services, by.run, reply.request_id)
    except Refused:
        return None
    return {"resultType": "task", **task_of(call)}


async def asked_for(by: Caller, reply: Reply) -> dict[str, Any]:
    """The task that a client of 2025-11-25 asked for, whatever became of its call. Raises Refused."""
    call = await visible(by.services, by.run, reply.request_id)
    return {"task": _as_2025(task_of(call))}


def task_of(call: CallRecord) -> dict[str, Any]:
    """The call as a task, as both revisions have it; it is kept for ever."""
    return {
        "taskId": call.request_id,
        "status": _status(call),
        "statusMessage": call.reply().message,
        "createdAt": _instant(call.created_at),
        "lastUpdatedAt": _instant(call.updated_at),
        "ttlMs": None,
        "pollIntervalMs": _POLL_MS,
    }


def _as_2025(task: dict[str, Any]) -> dict[str, Any]:
    """The same under the names of 2025-11-25."""
    renamed = {"ttlMs": "ttl", "pollIntervalMs": "pollInterval"}
    return {renamed.get(name, name): value for name, value in task.items()}


def _status(call: CallRecord) -> Literal["working", "completed", "cancelled"]:
    """A call that was refused or failed is a completed task with that result: `failed` is for the protocol's faults."""
    if call.status in _OPEN:
        return "working"
    return "cancelled" if call.status == "cancelled" else "completed"


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _result(call: CallRecord) -> dict[str, Any]:
    return result_of(call.reply()).model_dump(by_alias=True, mode="json", exclude_none=True)


async def _get(ctx: RequestContext, params: GetTaskRequestParams) -> dict[str, Any]:
    by = _caller(ctx)
    call = await or_error(by, visible(by.services, by.run, params.task_id))
    task = task_of(call)
    if not is_modern(ctx):
        return _as_2025(task)
    return {**task, "result": _result(call)} if task["status"] == "completed" else task


async def _cancel(ctx: RequestContext, params: CancelTaskRequestParams) -> dict[str, Any]:
    """A call that waits for a person is withdrawn; any other goes on."""
    by = _caller(ctx)
    call = await or_error(by, withdraw(by.services, by.run, params.task_id))
    return {} if is_modern(ctx) else _as_2025(task_of(call))


async def _update(ctx: RequestContext, params: UpdateTaskParams) -> dict[str, Any]:
    by = _caller(ctx)
    await or_error(by, visible(by.services, by.run, params.task_id))
    return {}


async def _payload(ctx: RequestContext, params: GetTaskPayloadRequestParams) -> dict[str, Any]:
    """2025-11-25: the call's result as it stands, at the latest after a minute."""
    by = _caller(ctx)
    call = await or_error(by, progress(by.services, by.run, params.task_id, LONGEST_WAIT))
    return {**_result(call), "_meta": {_RELATED: {"taskId": call.request_id}}}


def _caller(ctx: RequestContext) -> Caller:
    if is_modern(ctx) and not takes_tasks(ctx):
        raise MCPError(
            code=MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="This needs a client that takes tasks, and says so with the request.",
            data={"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
        )
    return caller(ctx)


def serve_tasks(server: Server[Any]) -> None:
    """Add the methods of both revisions."""
    server.extensions[EXTENSION] = {}
    server.add_request_handler("tasks/get", GetTaskRequestParams, _get)
    server.add_request_handler("tasks/cancel", CancelTaskRequestParams, _cancel)
    server.add_request_handler("tasks/update", UpdateTaskParams, _update)
    server.add_request_handler("tasks/result", GetTaskPayloadRequestParams, _payload)
