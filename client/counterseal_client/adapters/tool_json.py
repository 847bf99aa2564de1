"""Tools, calls and results as the APIs of OpenAI and Anthropic have them: plain dicts, without their libraries.

openai_chat       https://platform.openai.com/docs/guides/function-calling?api-mode=chat
openai_responses  https://platform.openai.com/docs/guides/function-calling?api-mode=responses
anthropic         https://docs.claude.com/en/docs/agents-and-tools/tool-use/overview
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from counterseal_client.adapters.written import UNREADABLE, arguments_of
from counterseal_client.asynchronous import AsyncRun
from counterseal_client.blocking import Run
from counterseal_client.models import Reply, Tool

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call that a model asks for. `arguments` is None where they cannot be read."""

    id: str
    name: str
    arguments: dict[str, Any] | None

    def call(self, run: Run) -> Reply:
        """Make the call; its step is the id."""
        return UNREADABLE if self.arguments is None else run.call(self.name, self.arguments, step=self.id)

    async def call_async(self, run: AsyncRun) -> Reply:
        """As `call`."""
        return UNREADABLE if self.arguments is None else await run.call(self.name, self.arguments, step=self.id)


@dataclass(frozen=True, slots=True)
class Dialect:
    """`tools`: the request's parameter `tools`. `uses`: the calls in what the model answered (Chat Completions: the
    message; Responses: `output`; Anthropic: `content`). `results`: what to append to the conversation, given each call
    with its reply."""

    tools: Callable[[Iterable[Tool]], list[dict[str, Any]]]
    uses: Callable[[Any], list[ToolUse]]
    results: Callable[[Sequence[tuple[ToolUse, Reply]]], list[dict[str, Any]]]


def _chat_tools(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {**_named(tool), "parameters": tool.model_schema}} for tool in tools]


def _chat_uses(message: Json) -> list[ToolUse]:
    asked = [each for each in message.get("tool_calls") or () if each.get("type") == "function"]
    return [
        ToolUse(each["id"], each["function"]["name"], arguments_of(each["function"]["arguments"])) for each in asked
    ]


def _chat_results(replies: Sequence[tuple[ToolUse, Reply]]) -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": use.id, "content": reply.for_model()} for use, reply in replies]


def _responses_tools(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    # Strict schemas know no optional arguments; the service validates them itself.
    return [{"type": "function", **_named(tool), "parameters": tool.model_schema, "strict": False} for tool in tools]


def _responses_uses(output: Sequence[Json]) -> list[ToolUse]:
    asked = [each for each in output if each.get("type") == "function_call"]
    return [ToolUse(each["call_id"], each["name"], arguments_of(each["arguments"])) for each in asked]


def _responses_results(replies: Sequence[tuple[ToolUse, Reply]]) -> list[dict[str, Any]]:
    return [{"type": "function_call_output", "call_id": use.id, "output": reply.for_model()} for use, reply in replies]


def _anthropic_tools(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    return [{**_named(tool), "input_schema": tool.model_schema} for tool in tools]


def _anthropic_uses(content: Sequence[Json]) -> list[ToolUse]:
    asked = [each for each in content if each.get("type") == "tool_use"]
    return [ToolUse(each["id"], each["name"], arguments_of(each["input"])) for each in asked]


def _anthropic_results(replies: Sequence[tuple[ToolUse, Reply]]) -> list[dict[str, Any]]:
    # All results of a turn stand in one message.
    blocks = [
        {"type": "tool_result", "tool_use_id": use.id, "content": reply.for_model(), "is_error": not reply.ok}
        for use, reply in replies
    ]
    return [{"role": "user", "content": blocks}] if blocks else []


def _named(tool: Tool) -> dict[str, str]:
    return {"name": tool.name, "description": tool.description}


openai_chat = Dialect(_chat_tools, _chat_uses, _chat_results)
openai_responses = Dialect(_responses_tools, _responses_uses, _responses_results)
anthropic = Dialect(_anthropic_tools, _anthropic_uses, _anthropic_results)
