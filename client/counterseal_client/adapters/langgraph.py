"""Tools for LangChain, and for LangGraph's `ToolNode` and interrupts (https://docs.langchain.com/oss/python/langgraph)."""

from collections.abc import Iterable
from typing import Any

from langchain_core.tools import BaseTool
from langgraph.types import interrupt
from pydantic import Field

from counterseal_client.adapters.written import UNREADABLE, arguments_of
from counterseal_client.asynchronous import AsyncRun
from counterseal_client.blocking import Run
from counterseal_client.errors import Misuse
from counterseal_client.models import Reply, Tool


def langchain_tools(run: Run | AsyncRun, tools: Iterable[Tool], *, interrupts: bool = True) -> list[BaseTool]:
    """The tools for a `ToolNode`, or to bind to a model. The scope of `run` is the thread.

    A call that waits for a person interrupts the graph, with its `request_id`, message and deadline. Resume it with any
    value when the call is over, or to have it looked at again: the node starts anew, and its steps are the same calls.
    Without `interrupts`, as outside of a graph, the model is told that it waits. A graph that is run with `ainvoke`
    takes an `AsyncRun`, one that is run with `invoke` a `Run`.
    """
    return [
        _CallingTool(
            name=tool.name, description=tool.description, args_schema=tool.model_schema, run_=run, interrupts=interrupts
        )
        for tool in tools
    ]


class _CallingTool(BaseTool):
    run_: Any = Field(exclude=True, repr=False)
    interrupts: bool

    def run(self, tool_input: str | dict[str, Any], *args: Any, tool_call_id: str | None = None, **kwargs: Any) -> Any:
        """The id of the model's call goes along: it is the step."""
        return super().run(_with_step(tool_input, tool_call_id), *args, tool_call_id=tool_call_id, **kwargs)

    async def arun(
        self, tool_input: str | dict[str, Any], *args: Any, tool_call_id: str | None = None, **kwargs: Any
    ) -> Any:
        return await super().arun(_with_step(tool_input, tool_call_id), *args, tool_call_id=tool_call_id, **kwargs)

    def _run(self, *, arguments: dict[str, Any] | None, step: str | None) -> str:
        if not isinstance(self.run_, Run):
            raise Misuse("a graph that is run with invoke takes the tools of a Run")
        if arguments is None:
            return UNREADABLE.for_model()
        reply = self.run_.call(self.name, arguments, step=step)
        while self.interrupts and reply.pending:
            interrupt(_waiting(self.name, reply))
            reply = self.run_.status(reply)
        return reply.for_model()

    async def _arun(self, *, arguments: dict[str, Any] | None, step: str | None) -> str:
        if not isinstance(self.run_, AsyncRun):
            raise Misuse("a graph that is run with ainvoke takes the tools of an AsyncRun")
        if arguments is None:
            return UNREADABLE.for_model()
        reply = await self.run_.call(self.name, arguments, step=step)
        while self.interrupts and reply.pending:
            interrupt(_waiting(self.name, reply))
            reply = await self.run_.status(reply)
        return reply.for_model()


def _with_step(written: object, step: str | None) -> dict[str, Any]:
    return {"arguments": arguments_of(written), "step": step}


def _waiting(tool: str, reply: Reply) -> dict[str, Any]:
    """What whoever runs the graph is told."""
    known = reply.model_dump(include={"request_id", "status", "message", "expires_at"}, exclude_none=True)
    return {"tool": tool, **known}
