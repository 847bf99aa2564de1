"""`Recheck`: another look at what became of a call, because a webhook came or because it was time."""

from contextlib import suppress
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from schemas.calls import Progress, RecheckInput

_REPEATED = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2.0, maximum_interval=timedelta(minutes=5)
)
_LONGEST = timedelta(hours=1)


@workflow.defn(name="Recheck", failure_exception_types=[RuntimeError])
class Recheck:
    """Looks for everything that was said before it looked, until it could read."""

    @workflow.init
    def __init__(self, request: RecheckInput) -> None:
        self._asked = True

    @workflow.signal
    def look(self) -> None:
        """Something was said of the effect."""
        self._asked = True

    @workflow.run
    async def run(self, request: RecheckInput) -> None:
        unread = 0
        while self._asked or unread:
            if unread:
                # What could not be read is looked for until it can be, however long the other system is away.
                wait = min(timedelta(seconds=2 ** min(unread, 12)), _LONGEST)
                with suppress(TimeoutError):
                    await workflow.wait_condition(lambda: self._asked, timeout=wait, timeout_summary="Not readable")
            self._asked = False
            progress = await workflow.execute_activity(
                "recheck",
                request.call,
                result_type=Progress,
                task_queue=request.queue,
                start_to_close_timeout=timedelta(seconds=60),
                heartbeat_timeout=timedelta(seconds=10),
                retry_policy=_REPEATED,
                summary="Look at the effect again",
            )
            unread = unread + 1 if progress.unread else 0
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(request)
