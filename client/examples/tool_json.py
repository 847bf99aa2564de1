"""An agent's loop over a model's own API, in each of three dialects. A script stands in for the model."""

import json
from typing import Any

from counterseal_client import Counterseal
from counterseal_client.adapters.tool_json import Dialect, anthropic, openai_chat, openai_responses
from shop import a_shop

SHOP = a_shop()


def what_a_model_answers(dialect: Dialect, call_id: str, arguments: dict[str, Any]) -> Any:
    """What `.model_dump()` of the libraries' answers holds."""
    written = json.dumps(arguments)
    if dialect is openai_chat:
        function = {"name": "issue_refund", "arguments": written}
        return {"role": "assistant", "tool_calls": [{"id": call_id, "type": "function", "function": function}]}
    if dialect is openai_responses:
        return [{"type": "function_call", "call_id": call_id, "name": "issue_refund", "arguments": written}]
    return [{"type": "tool_use", "id": call_id, "name": "issue_refund", "input": arguments}]


with Counterseal(SHOP.api, SHOP.service_token) as client:
    run = client.open_run(
        agent_id="support-bot",
        actor_id="user_17",
        customer_id=SHOP.customer_id,
        tools=["issue_refund", "lookup_orders"],
        scope=f"conversation about {SHOP.order_id}",
    )
    listed = run.tools()
    for number, dialect in enumerate((openai_chat, openai_responses, anthropic)):
        tools = dialect.tools(listed)  # the request's parameter `tools`
        answered = what_a_model_answers(dialect, f"call_{number}", SHOP.refund(1000 + number))
        replies = [(use, use.call(run)) for use in dialect.uses(answered)]
        for message in dialect.results(replies):  # to append to the conversation
            print(len(tools), "tools", json.dumps(message))
