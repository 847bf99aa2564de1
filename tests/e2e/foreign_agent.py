"""A workflow of another runtime, which has no key of the service."""

from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from counterseal_client.adapters.temporal import call_tool


@workflow.defn
class ForeignAgent:
    @workflow.run
    async def run(self, run_id: str, arguments: dict[str, Any], scope: str) -> dict[str, Any]:
        """The reply to one refund."""
        reply = await call_tool("issue_refund", arguments, step="refund", run_id=run_id, tenant="default", scope=scope)
        return reply.model_dump(mode="json")
