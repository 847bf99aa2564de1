"""A toolset for Pydantic AI, with deferred tools for what waits for a person (https://ai.pydantic.dev/deferred-tools/)."""

import asyncio
from typing import Any

from pydantic_ai import CallDeferred, DeferredToolRequests, RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from counterseal_client.adapters.written import arguments_of
from counterseal_client.asynchronous import AsyncRun
from counterseal_client.models import Tool

# The service validates arguments itself, and says what would fit.
_ANY_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
_REQUEST = "counterseal_request_id"


class CountersealToolset(AbstractToolset[Any]):
    """The tools that the run may use, looked up before each request to the model, as they change with what was done.

    A call that waits for a person ends the agent's run with `DeferredToolRequests`, which has to be one of its output
    types; `answers` finds out what became of it. With `defers=False` the model is told that it waits. The scope of
    `run` is the conversation.
    """

    def __init__(self, run: AsyncRun, *, defers: bool = True, id: str | None = None) -> None:  # noqa: A002
        self._run = run
        self._defers = defers
        self._id = id

    @property
    def id(self) -> str | None:
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        return {
            tool.name: ToolsetTool(toolset=self, tool_def=_definition(tool), max_retries=1, args_validator=_ANY_OBJECT)
            for tool in await self._run.tools()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> str:
        reply = await self._run.call(name, arguments_of(tool_args), step=ctx.tool_call_id)
        if self._defers and reply.pending:
            raise CallDeferred({_REQUEST: reply.request_id})
        return reply.for_model()


async def answers(run: AsyncRun, requests: DeferredToolRequests, *, seconds: float = 0) -> dict[str, str]:
    """What became of each deferred call after at most about so long, for `requests.build_results(calls=…)`. Those of
    other toolsets are not among it, and of one that still waits the model is told that."""
    asked = {call.tool_call_id: requests.metadata.get(call.tool_call_id, {}).get(_REQUEST) for call in requests.calls}
    ours = {call_id: request_id for call_id, request_id in asked.items() if request_id is not None}
    replies = await asyncio.gather(*(run.wait(request_id, seconds) for request_id in ours.values()))
    return {call_id: reply.for_model() for call_id, reply in zip(ours, replies, strict=True)}


def _definition(tool: Tool) -> ToolDefinition:
    return ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.model_schema)
