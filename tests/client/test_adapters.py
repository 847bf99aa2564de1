"""What frameworks are handed, and that whatever they do again is the same call. Each of them as a whole, against a real
service, is in tests/e2e/test_client_examples.py.

The frameworks take seconds to import and every process of the suite collects every file, so each test imports its own.
"""

import json
from typing import TYPE_CHECKING, Any

import pytest
from counterseal_client import Misuse, step_key
from counterseal_client.adapters.tool_json import Dialect, anthropic, openai_chat, openai_responses

from tests.client.fake_service import SCOPE, FakeService

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models.function import AgentInfo

REFUND = {"order_id": "ord_1"}
# A model that was trained on other tools may write a key that nobody asked for.
WRITTEN = {**REFUND, "idempotency_key": "made up by a model"}
KEY = step_key(SCOPE, "call_1")
THREAD: Any = {"configurable": {"thread_id": "1"}}


@pytest.fixture
def service() -> FakeService:
    return FakeService()


def schemas(dialect: Dialect, service: FakeService) -> list[dict[str, Any]]:
    tools = dialect.tools(service.blocking().tools())
    return [each.get("function", each).get("parameters") or each["input_schema"] for each in tools]


def answered(name: str, arguments: Any) -> tuple[Dialect, Any]:
    """(the dialect, what a model says in it)."""
    if name == "chat":
        function = {"name": "issue_refund", "arguments": arguments}
        return openai_chat, {"tool_calls": [{"id": "call_1", "type": "function", "function": function}]}
    if name == "responses":
        call = {"type": "function_call", "call_id": "call_1", "name": "issue_refund", "arguments": arguments}
        return openai_responses, [{"type": "reasoning"}, call]
    call = {"type": "tool_use", "id": "call_1", "name": "issue_refund", "input": arguments}
    return anthropic, [{"type": "text", "text": "So."}, call]


@pytest.mark.parametrize("name", ["chat", "responses", "anthropic"])
async def test_each_dialect(name: str, service: FakeService) -> None:
    dialect, said = answered(name, WRITTEN if name == "anthropic" else json.dumps(WRITTEN))
    for schema in schemas(dialect, service):
        assert (list(schema["properties"]), schema["required"]) == (["order_id"], ["order_id"])
    (use,) = dialect.uses(said)
    replies = [use.call(service.blocking()), await use.call_async(service.asynchronous())]
    assert [each.pending for each in replies] == [True, True]
    assert [call["arguments"] for call in service.called] == [{**REFUND, "idempotency_key": KEY}] * 2
    assert "It waits." in json.dumps(dialect.results([(use, replies[0])]))
    assert dialect.results([]) == []


@pytest.mark.parametrize("written", ["{", "[1]", "null", "[" * 100_000, 7], ids=range(5))
async def test_arguments_that_cannot_be_read_are_the_models_to_repair(written: Any, service: FakeService) -> None:
    for name in ("chat", "anthropic"):
        dialect, said = answered(name, written)
        (use,) = dialect.uses(said)
        assert use.call(service.blocking()).action == "repair_input"
        assert (await use.call_async(service.asynchronous())).action == "repair_input"
    assert service.called == []


def test_an_answer_without_calls_asks_for_none() -> None:
    assert openai_chat.uses({"role": "assistant", "content": "Hello.", "tool_calls": None}) == []
    assert openai_chat.uses({"role": "assistant", "content": "Hello."}) == []


async def test_openai_agents_are_told_what_waits(service: FakeService) -> None:
    from agents.tool_context import ToolContext
    from counterseal_client.adapters.openai_agents import function_tools

    run = service.asynchronous()
    refund = {tool.name: tool for tool in function_tools(run, await run.tools())}["issue_refund"]
    assert "idempotency_key" not in json.dumps(refund.params_json_schema)
    assert refund.needs_approval is False
    context: Any = ToolContext(None, tool_name="issue_refund", tool_call_id="call_1", tool_arguments="")
    for written in (json.dumps(WRITTEN), json.dumps(REFUND)):
        assert json.loads(await refund.on_invoke_tool(context, written))["status"] == "pending_approval"
    assert service.keys == [KEY, KEY]
    assert json.loads(await refund.on_invoke_tool(context, "{"))["action"] == "repair_input"


async def test_openai_agents_are_interrupted_by_a_call_that_waits_and_no_other(service: FakeService) -> None:
    from agents import RunContextWrapper
    from counterseal_client.adapters.openai_agents import function_tools

    run = service.asynchronous()
    tools = {tool.name: tool for tool in function_tools(run, await run.tools(), interrupts=True)}
    assert tools["lookup_orders"].needs_approval is False, "asking first would read twice"
    asks: Any = tools["issue_refund"].needs_approval
    assert await asks(RunContextWrapper(None), WRITTEN, "call_1") is True
    service.decided = True
    assert await asks(RunContextWrapper(None), REFUND, "call_1") is False
    assert service.keys == [KEY, KEY]


def graph_of(tools: list[Any]) -> Any:
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    call = {"id": "call_1", "name": "issue_refund", "args": WRITTEN, "type": "tool_call"}

    def model(_: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("", tool_calls=[call])]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    return graph.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("early", [0, 1, 2])
def test_a_graph_is_interrupted_until_the_call_is_over(early: int, service: FakeService) -> None:
    from counterseal_client.adapters.langgraph import langchain_tools
    from langgraph.types import Command

    run = service.blocking()
    graph = graph_of(langchain_tools(run, run.tools()))
    state = graph.invoke({"messages": []}, THREAD)
    for _ in range(early):
        state = graph.invoke(Command(resume="look again"), THREAD)
        (interrupted,) = state["__interrupt__"]
        assert (interrupted.value["tool"], interrupted.value["status"]) == ("issue_refund", "pending_approval")
    service.decided = True
    state = graph.invoke(Command(resume="decided"), THREAD)
    assert json.loads(state["messages"][-1].content)["message"] == "Done."
    assert set(service.keys) == {KEY}
    assert len(service.keys) == early + 2


async def test_a_graph_with_asyncio(service: FakeService) -> None:
    from counterseal_client.adapters.langgraph import langchain_tools
    from langgraph.types import Command

    run = service.asynchronous()
    graph = graph_of(langchain_tools(run, await run.tools()))
    assert (await graph.ainvoke({"messages": []}, THREAD))["__interrupt__"]
    service.decided = True
    state = await graph.ainvoke(Command(resume="decided"), THREAD)
    assert json.loads(state["messages"][-1].content)["message"] == "Done."
    assert service.keys == [KEY, KEY]


async def test_langchain_without_a_graph(service: FakeService) -> None:
    from counterseal_client.adapters.langgraph import langchain_tools

    run = service.blocking()
    tools = {tool.name: tool for tool in langchain_tools(run, run.tools(), interrupts=False)}
    refund: Any = tools["issue_refund"]
    assert "idempotency_key" not in json.dumps(refund.args)
    said = refund.invoke({"id": "call_1", "name": "issue_refund", "args": WRITTEN, "type": "tool_call"})
    assert (said.tool_call_id, json.loads(said.content)["status"]) == ("call_1", "pending_approval")
    assert service.keys == [KEY]
    with pytest.raises(Misuse, match="writes: give a step"):
        refund.invoke(REFUND)
    with pytest.raises(Misuse, match="AsyncRun"):
        await refund.ainvoke({"id": "call_1", "name": "issue_refund", "args": REFUND, "type": "tool_call"})
    assert "a-run-token" not in repr(refund) + repr(refund.model_dump())


def script(messages: "list[ModelMessage]", info: "AgentInfo") -> "ModelResponse":
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart

    assert "idempotency_key" not in json.dumps([tool.parameters_json_schema for tool in info.function_tools])
    for part in messages[-1].parts:
        if isinstance(part, ToolReturnPart):
            return ModelResponse(parts=[TextPart(str(part.content))])
    return ModelResponse(parts=[ToolCallPart("issue_refund", WRITTEN, tool_call_id="call_1")])


async def test_pydantic_ai_defers_a_call_that_waits(service: FakeService) -> None:
    from counterseal_client.adapters.pydantic_ai import CountersealToolset, answers
    from pydantic_ai import Agent, DeferredToolRequests
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    run = service.asynchronous()
    agent = Agent(FunctionModel(script), toolsets=[CountersealToolset(run)], output_type=[str, DeferredToolRequests])
    first = await agent.run("Refund it.")
    assert isinstance(first.output, DeferredToolRequests)
    found = await answers(run, first.output)
    assert json.loads(found["call_1"])["message"] == "It waits."
    service.decided = True
    found = await answers(run, first.output)
    second = await agent.run(
        message_history=first.all_messages(), deferred_tool_results=first.output.build_results(calls={**found})
    )
    assert json.loads(str(second.output))["message"] == "Done."
    assert service.keys == [KEY]
    assert await answers(run, DeferredToolRequests(calls=[ToolCallPart("of_another_toolset", {})])) == {}


async def test_pydantic_ai_without_deferring_is_told_what_waits(service: FakeService) -> None:
    from counterseal_client.adapters.pydantic_ai import CountersealToolset
    from pydantic_ai import Agent
    from pydantic_ai.models.function import FunctionModel

    agent = Agent(FunctionModel(script), toolsets=[CountersealToolset(service.asynchronous(), defers=False)])
    assert json.loads((await agent.run("Refund it.")).output)["message"] == "It waits."
