"""A Pydantic AI agent whose refund waits for a person: the run ends with a deferred call, and another run goes on once
the person has decided. A script stands in for the model."""

import asyncio
import json

from counterseal_client import AsyncCounterseal
from counterseal_client.adapters.pydantic_ai import CountersealToolset, answers
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from shop import a_shop

SHOP = a_shop()


def scripted_model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Asks for one refund, then repeats what it was told about it."""
    for part in messages[-1].parts:
        if isinstance(part, ToolReturnPart):
            return ModelResponse(parts=[TextPart(json.loads(str(part.content))["message"])])
    call = ToolCallPart("issue_refund", SHOP.refund(31_240), tool_call_id="call_1")
    return ModelResponse(parts=[call])


async def main() -> None:
    async with AsyncCounterseal(SHOP.api, SHOP.service_token) as client:
        run = await client.open_run(
            agent_id="support-bot",
            actor_id="user_17",
            customer_id=SHOP.customer_id,
            tools=["issue_refund"],
            scope=f"conversation about {SHOP.order_id}",
        )
        agent = Agent(
            FunctionModel(scripted_model),
            toolsets=[CountersealToolset(run)],
            output_type=[str, DeferredToolRequests],
        )
        first = await agent.run("My lamp arrived broken.")
        deferred = first.output
        assert isinstance(deferred, DeferredToolRequests)
        print("deferred:", [call.tool_name for call in deferred.calls])

        await asyncio.to_thread(SHOP.a_person_approves)

        results = deferred.build_results(calls={**await answers(run, deferred, seconds=60)})
        second = await agent.run(message_history=first.all_messages(), deferred_tool_results=results)
        print("said:", second.output)


asyncio.run(main())
