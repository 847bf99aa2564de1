"""An agent that is a Temporal workflow of its own, whose refund is a child workflow that waits for a person. A script
stands in for the model. This worker has no key of the service, so nobody encrypts what it sends: see the page."""

import asyncio
import secrets

from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from counterseal_client import AsyncCounterseal
    from counterseal_client.adapters.temporal import Replies, call_tool
    from shop import Shop, a_shop


@workflow.defn
class SupportAgent:
    @workflow.run
    async def run(self, run_id: str, arguments: dict[str, int | str]) -> str:
        reply = await call_tool("issue_refund", arguments, step="refund", run_id=run_id, tenant="default")
        return reply.message


async def main(shop: Shop) -> None:
    client = await Client.connect(shop.ready["temporal"], namespace=shop.ready["namespace"])
    async with AsyncCounterseal(shop.api, shop.service_token) as service:
        run = await service.open_run(
            agent_id="support-bot", actor_id="user_17", customer_id=shop.customer_id, tools=["issue_refund"]
        )
        runs = {str(run.run_id): run}
        queue = f"agents-{secrets.token_hex(4)}"
        replies = Replies(runs.__getitem__)
        async with Worker(client, task_queue=queue, workflows=[SupportAgent], activities=[replies.reply]):
            started = await client.start_workflow(
                SupportAgent.run,
                args=[str(run.run_id), shop.refund(31_240)],
                id=f"agent/{shop.order_id}",
                task_queue=queue,
            )
            await asyncio.to_thread(shop.a_person_approves)
            print("said:", await started.result())


if __name__ == "__main__":
    asyncio.run(main(a_shop()))
