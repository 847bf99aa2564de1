"""`Recheck`: another look at what became of a call, because a webhook came or because it was time."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from schemas.calls import Progress, RecheckInput

_REPEATED = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2.0, maximum_interval=timedelta(minutes=5)
)


@workflow.defn(name="Recheck", failure_exception_types=[RuntimeError])
class Recheck:
    """Looks once for everything that was said before it looked."""

    @workflow.init
    def __init__(self, request: RecheckInput) -> None:
        self._asked = True

    @workflow.signal
    def look(self) -> None:
        """Something was said of the effect."""
        self._asked = True

    @workflow.run
    async def run(self, request: RecheckInput) -> None:
        while self._asked:
            self._asked = False
            await workflow.execute_activity(
                "recheck",
                request.call,
                result_type=Progress,
                task_queue=request.queue,
                start_to_close_timeout=timedelta(seconds=60),
                heartbeat_timeout=timedelta(seconds=10),
                retry_policy=_REPEATED,
                summary="Look at the effect again",
            )
