"""An agent of the OpenAI Agents SDK whose refund waits for a person: the run is interrupted, kept as JSON, and goes on
once the person has decided. A script stands in for the model."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, RunState, Usage
from counterseal_client import AsyncCounterseal
from counterseal_client.adapters.openai_agents import function_tools
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from shop import a_shop

SHOP = a_shop()


class ScriptedModel(Model):
    """Asks for one refund, then repeats what it was told about it."""

    async def get_response(self, system_instructions: str | None, input: Any, *args: Any, **more: Any) -> ModelResponse:  # noqa: A002
        told = [each["output"] for each in input if "output" in each]
        if not told:
            arguments = json.dumps(SHOP.refund(31_240))
            output = ResponseFunctionToolCall(
                type="function_call", call_id="call_1", name="issue_refund", arguments=arguments
            )
        else:
            said = ResponseOutputText(type="output_text", text=json.loads(told[0])["message"], annotations=[])
            output = ResponseOutputMessage(
                id="msg_1", type="message", role="assistant", status="completed", content=[said]
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


async def main() -> None:
    async with AsyncCounterseal(SHOP.api, SHOP.service_token) as client:
        run = await client.open_run(
            agent_id="support-bot",
            actor_id="user_17",
            customer_id=SHOP.customer_id,
            tools=["issue_refund"],
            scope=f"conversation about {SHOP.order_id}",
        )
        tools = function_tools(run, await run.tools(), interrupts=True)
        agent = Agent[Any](name="support", model=ScriptedModel(), tools=[*tools])
        config = RunConfig(tracing_disabled=True)
        result = await Runner.run(agent, "My lamp arrived broken.", run_config=config)
        print("interrupted:", [each.name for each in result.interruptions])
        kept = result.to_state().to_string()

        await asyncio.to_thread(SHOP.a_person_approves)

        state: RunState[Any, Any] = await RunState.from_string(agent, kept)
        for each in state.get_interruptions():
            state.approve(each)  # go on; the person at the service has decided
        result = await Runner.run(agent, state, run_config=config)
        print("said:", result.final_output)


asyncio.run(main())
