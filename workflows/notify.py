"""`Notify`: tells one thing over one channel, however long that is away, within its patience."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from schemas.notices import NotifyInput

_AGAIN = RetryPolicy(
    initial_interval=timedelta(seconds=5), backoff_coefficient=2.0, maximum_interval=timedelta(hours=1)
)
_REPEATED = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=30)
)


@workflow.defn(name="Notify", failure_exception_types=[RuntimeError])
class Notify:
    """Tries for so long, then gives up, which operators are alerted of."""

    @workflow.run
    async def run(self, request: NotifyInput) -> None:
        try:
            await workflow.execute_activity(
                "send_notice",
                request.notice,
                task_queue=request.queue,
                schedule_to_close_timeout=timedelta(seconds=request.patience_seconds),
                # Longer than the total deadline of any channel.
                start_to_close_timeout=timedelta(seconds=60),
                heartbeat_timeout=timedelta(seconds=10),
                retry_policy=_AGAIN,
                summary="Tell somebody",
            )
        except ActivityError:
            await workflow.execute_local_activity(
                "give_up_notice",
                request.notice,
                start_to_close_timeout=timedelta(seconds=60),
                retry_policy=_REPEATED,
                summary="Say that nobody could be told",
            )
