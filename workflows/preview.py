"""`Preview`: a dry run. Decides on the facts as they are, and leaves nothing behind."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from schemas.calls import PreviewInput
    from schemas.replies import Reply


@workflow.defn(name="Preview")
class Preview:
    @workflow.run
    async def run(self, request: PreviewInput) -> Reply:
        return await workflow.execute_activity(
            "preview",
            request,
            result_type=Reply,
            task_queue=request.queue,
            start_to_close_timeout=timedelta(seconds=20),
            retry_policy=RetryPolicy(maximum_attempts=2),
            summary="Decide without doing",
        )
