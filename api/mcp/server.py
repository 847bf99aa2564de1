"""The SDK's server with our handlers. It knows no caller: the endpoint authenticates each request first."""

from importlib.metadata import version
from typing import Any, cast

from mcp.server import NotificationOptions, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.types import (
    CallToolRequestParams,
    ServerCapabilities,
    ServerTasksCapability,
    ServerTasksRequestsCapability,
    TasksCallCapability,
    TasksCancelCapability,
    TasksToolsCapability,
)
from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind
from pydantic import JsonValue

from api.mcp.answering import caller, or_error
from api.mcp.calls import Calls
from api.mcp.listening import Listeners
from api.mcp.tasks import asked_for, serve_tasks
from api.tracing import parent_in

_tracer = trace.get_tracer("counterseal.api")
_WITH_TASKS = "2025-11-25"
_RECORDED_WITHIN = 5
_TASKS = ServerTasksCapability(
    cancel=TasksCancelCapability(),
    requests=ServerTasksRequestsCapability(tools=TasksToolsCapability(call=TasksCallCapability())),
)
_INSTRUCTIONS = (
    "Every result is a reply object: `status` and `code` say what became of the call, `action` what to do next. "
    "`pending_approval` is no failure: a person decides, which may take hours. Do not send the call again; look with "
    "check_call how it stands. Each new call that changes something needs a new idempotency_key; a call whose answer "
    "was lost is repeated with the same one."
)


class McpServer(Server[Any]):
    """With tools, their changes, and tasks."""

    def __init__(self, listeners: Listeners) -> None:
        self._calls = Calls()
        super().__init__(
            "counterseal",
            version=version("counterseal"),
            title="Counterseal",
            instructions=_INSTRUCTIONS,
            get_tool_input_schema=self._calls.input_schema,
            on_list_tools=self._calls.listed,
            on_subscriptions_listen=listeners.listen,
        )
        # In place of the SDK's own spans, which hold what clients sent and the texts of exceptions.
        self.middleware = [_traced, self._task_asked_for]
        # A task is no result of the constructor's type.
        self.add_request_handler("tools/call", CallToolRequestParams, self._calls.call)
        serve_tasks(self)

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        """Also of revisions with a handshake: whose clients hear of changes on the standing stream."""
        found = super().get_capabilities(
            NotificationOptions(tools_changed=True),
            experimental_capabilities,
            extensions,
            protocol_version=protocol_version,
        )
        return found if protocol_version is not None else found.model_copy(update={"tasks": _TASKS})

    async def _task_asked_for(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """A client of 2025-11-25 says with its call whether it wants a task, and must then be answered with one."""
        asked = ctx.method == "tools/call" and ctx.protocol_version == _WITH_TASKS and "task" in (ctx.params or {})
        if not asked:
            return await call_next(ctx)
        by, params = caller(ctx), CallToolRequestParams.model_validate(ctx.params, by_name=False)
        arguments = cast("dict[str, JsonValue]", params.arguments or {})

        async def task() -> dict[str, Any]:
            return await asked_for(by, await self._calls.reply(ctx, by, params.name, arguments, _RECORDED_WITHIN))

        return await or_error(by, task())


async def _traced(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """A call whose `_meta` names its trace (https://modelcontextprotocol.io/seps/414) is a span of that trace;
    otherwise the request's own goes on."""
    here, parent = trace.get_current_span(), parent_in(ctx.meta or {})
    here.set_attribute("mcp.protocol.version", ctx.protocol_version)
    if ctx.method != "tools/call" or parent is None:
        return await call_next(ctx)
    with _tracer.start_as_current_span(
        "tools/call",
        context=parent,
        kind=SpanKind.SERVER,
        links=[Link(here.get_span_context())],
        record_exception=False,
        set_status_on_exception=False,
    ):
        return await call_next(ctx)
