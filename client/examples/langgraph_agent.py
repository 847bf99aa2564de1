"""A LangGraph agent whose refund waits for a person: the graph is interrupted, and resumed once the person has decided.
A script stands in for the model."""

import json
from typing import Any

from counterseal_client import Counterseal
from counterseal_client.adapters.langgraph import langchain_tools
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command
from shop import a_shop

SHOP = a_shop()
THREAD = f"thread about {SHOP.order_id}"


def scripted_model(state: MessagesState) -> dict[str, Any]:
    """Asks for one refund, then repeats what it was told about it."""
    last = state["messages"][-1]
    if isinstance(last, HumanMessage):
        call = {"id": "call_1", "name": "issue_refund", "args": SHOP.refund(31_240), "type": "tool_call"}
        return {"messages": [AIMessage("", tool_calls=[call])]}
    return {"messages": [AIMessage(json.loads(str(last.content))["message"])]}


with Counterseal(SHOP.api, SHOP.service_token) as client:
    run = client.open_run(
        agent_id="support-bot",
        actor_id="user_17",
        customer_id=SHOP.customer_id,
        tools=["issue_refund"],
        scope=THREAD,
    )
    graph: Any = (
        StateGraph(MessagesState)
        .add_node("model", scripted_model)
        .add_node("tools", ToolNode(langchain_tools(run, run.tools())))
        .add_edge(START, "model")
        .add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
        .add_edge("tools", "model")
        .compile(checkpointer=InMemorySaver())
    )
    thread: RunnableConfig = {"configurable": {"thread_id": THREAD}}
    state = graph.invoke({"messages": [HumanMessage("My lamp arrived broken.")]}, thread)
    waiting = state["__interrupt__"][0].value
    print("interrupted:", waiting["tool"], waiting["status"])

    SHOP.a_person_approves()
    run.wait(waiting["request_id"])

    state = graph.invoke(Command(resume="decided"), thread)
    print("said:", state["messages"][-1].content)
