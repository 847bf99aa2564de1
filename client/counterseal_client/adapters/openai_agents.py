"""Tools for the OpenAI Agents SDK (https://openai.github.io/openai-agents-python/)."""

from collections.abc import Iterable
from typing import Any

from agents import FunctionTool, RunContextWrapper
from agents.tool_context import ToolContext

from counterseal_client.adapters.written import UNREADABLE, arguments_of
from counterseal_client.asynchronous import AsyncRun
from counterseal_client.models import Reply, Tool


def function_tools(run: AsyncRun, tools: Iterable[Tool], *, interrupts: bool = False) -> list[FunctionTool]:
    """The tools for an `Agent`. The scope of `run` is the conversation.

    A call that waits for a person is told to the model as that. With `interrupts` it interrupts the SDK's run instead:
    go on with `state.approve(…)` once `run.wait` says that it is over. That approval lets the SDK continue and nothing
    else: who decides about the call is a person at the service, and approving too early shows the model that it waits.
    """
    return [_function_tool(run, tool, interrupts and tool.takes_key) for tool in tools]


def _function_tool(run: AsyncRun, tool: Tool, interrupts: bool) -> FunctionTool:
    async def made(arguments: dict[str, Any] | None, call_id: str) -> Reply:
        return UNREADABLE if arguments is None else await run.call(tool.name, arguments, step=call_id)

    async def invoked(context: ToolContext[Any], written: str) -> str:
        return (await made(arguments_of(written), context.tool_call_id)).for_model()

    async def waits(_: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        # It is made here, before the SDK asks whether to go on; what is invoked after that is the same call.
        return (await made(arguments_of(arguments), call_id)).pending

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.model_schema,
        on_invoke_tool=invoked,
        # Strict schemas know no optional arguments; the service validates them itself.
        strict_json_schema=False,
        needs_approval=waits if interrupts else False,
    )
