"""`ToolCall`: one agent's tool call, from proposal to settlement. Names here are in histories: they never change."""

from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar, cast

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey, SearchAttributePair
from temporalio.exceptions import ActivityError, ApplicationError, ApplicationErrorCategory, FailureError

with workflow.unsafe.imports_passed_through():
    from schemas.base import Model
    from schemas.calls import CallRef, ExecuteRequest, Progress, ToolCallInput, ToolCallResult
    from schemas.codes import Code
    from schemas.decisions import SignedDecision
    from workflows.telling import ADMITTING, SENDING, standing

CALL_STATUS = SearchAttributeKey.for_keyword("CallStatus")
TOOL_NAME = SearchAttributeKey.for_keyword("ToolName")
DECISION = SearchAttributeKey.for_keyword("Decision")
POLICY_VERSION = SearchAttributeKey.for_keyword("PolicyVersion")
APPROVAL_ID = SearchAttributeKey.for_keyword("ApprovalId")
# Temporal keeps `RunId` for its own runs.
RUN_ID = SearchAttributeKey.for_keyword("AgentRunId")

# An activity that only reads and writes the ledger may be repeated for ever: it either finds its work done or does it.
_REPEATED = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=30)
)
_BENIGN = ApplicationErrorCategory.BENIGN
_ONCE = RetryPolicy(maximum_attempts=1)
_LOCAL_LIMIT = timedelta(seconds=60)
# Longer than the total deadline of an exchange with a remote system.
_EFFECT_LIMIT = timedelta(seconds=60)
# A worker that says nothing for so long is gone.
_SILENCE = timedelta(seconds=10)
# The deadline is judged by the database's clock: when that is behind, it is asked again, but not without a pause.
_SHORTEST_HOLD = timedelta(seconds=1)
_SENT_ONCE = "Send the effect, once"
# Before an effect whose facts could not be read is tried again; nothing was sent.
_PAUSES = [timedelta(seconds=s) for s in (2, 5, 15, 60)]


M = TypeVar("M", bound=Model)
# The converter takes any annotation; the SDK declares that it takes classes.
_TRIED = cast("type[Progress | None]", Progress | None)


# RuntimeError is what the SDK raises for arguments that cannot be decoded; they would leave a workflow hanging instead.
@workflow.defn(name="ToolCall", failure_exception_types=[RuntimeError])
class ToolCall:
    """Admit, hold, execute, inspect, settle. The activities say what comes next; this waits, times and asks.

    It takes whatever is sent, and looks at it itself: arguments of another number or type than a signal declares would
    fail every later task of the workflow.
    """

    @workflow.init
    def __init__(self, *given: Any) -> None:
        self._request = _the_one(ToolCallInput, given)
        self._progress: Progress | None = None
        self._delivered: list[SignedDecision] = []
        self._withdrawn = False
        self._look_now = False
        self._resting = False
        self._settled = False
        self._noted: str | None = None

    @workflow.run
    async def run(self, *given: Any) -> ToolCallResult:
        """Work off one `ToolCallInput`."""
        if self._request is None:
            raise ApplicationError(
                "the input is no ToolCallInput", type=Code.INVALID_INPUT.value, non_retryable=True, category=_BENIGN
            )
        workflow.set_current_details(ADMITTING)
        progress = await self._admit(self._request)
        executions = 0
        while progress.next != "settled":
            if progress.next == "hold":
                progress = await self._hold(progress)
            elif progress.next == "execute":
                if executions:
                    await workflow.sleep(_PAUSES[min(executions, len(_PAUSES)) - 1], summary="Facts were not readable")
                progress = await self._execute(progress, self._delivered.pop(0) if self._delivered else None)
                executions += 1
            elif progress.next == "resend":
                progress = await self._attempt("resend", CallRef(request_id=progress.request_id), progress.queue)
            else:
                progress = await self._inspect(progress)
                if workflow.info().is_continue_as_new_suggested():
                    workflow.continue_as_new(self._request)
            self._note(progress)
        while self._look_now:
            # Said after the last look: it may have been undone since.
            self._look_now = False
            progress = await self._look(progress.request_id, progress.queue, "recheck")
            self._note(progress)
        self._settled = self._resting = True
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self._result()

    @workflow.signal
    def decide(self, *given: Any) -> None:
        """Deliver a `SignedDecision`. It counts only if it verifies; see the activities `execute` and `deny`."""
        decision = _the_one(SignedDecision, given)
        if decision is not None:
            self._delivered.append(decision)

    @workflow.update(name="decide")
    async def decide_and_wait(self, *given: Any) -> ToolCallResult:
        """Deliver a `SignedDecision` and wait until it was taken or refused, and the call rests again."""
        decision = _the_one(SignedDecision, given)
        if decision is not None:
            self._delivered.append(decision)
        await workflow.wait_condition(lambda: self._settled or (self._resting and decision not in self._delivered))
        return self._result()

    @decide_and_wait.validator
    def _is_signed_decision(self, *given: Any) -> None:
        if _the_one(SignedDecision, given) is None:
            raise ApplicationError("this is no SignedDecision", type=Code.INVALID_INPUT.value, category=_BENIGN)

    @workflow.signal
    def withdraw(self, *given: Any) -> None:
        """Take a parked call back."""
        self._withdrawn = True

    @workflow.signal
    def look(self, *given: Any) -> None:
        """There is something new to see of an outcome that is not known: a webhook came, or a person settled it."""
        self._look_now = True

    @workflow.query
    def status(self) -> ToolCallResult:
        """Where the call stands."""
        return self._result()

    @workflow.update(name="status")
    async def status_at_rest(self) -> ToolCallResult:
        """Where the call stands once it has settled or parked."""
        await workflow.wait_condition(lambda: self._resting)
        return self._result()

    async def _admit(self, request: ToolCallInput) -> Progress:
        progress = await workflow.execute_local_activity(
            "admit",
            request,
            result_type=Progress,
            start_to_close_timeout=_LOCAL_LIMIT,
            # A pause that is longer than this is a timer: the task is not kept open for it.
            local_retry_threshold=timedelta(seconds=0.5),
            retry_policy=_REPEATED,
            summary="Decide the call",
        )
        if progress.next == "admit":
            progress = await workflow.execute_activity(
                "admit",
                request,
                result_type=Progress,
                task_queue=progress.queue,
                start_to_close_timeout=_LOCAL_LIMIT,
                retry_policy=_REPEATED,
                summary="Decide the call where its credentials are",
            )
        self._note(progress)
        return progress

    async def _hold(self, progress: Progress) -> Progress:
        """Wait for a decision, a withdrawal or the deadline."""
        remaining = None
        if progress.expires_at is not None:
            remaining = max(progress.expires_at - workflow.now(), _SHORTEST_HOLD)
        self._resting = True
        try:
            await workflow.wait_condition(
                lambda: bool(self._delivered) or self._withdrawn, timeout=remaining, timeout_summary="Approval deadline"
            )
        except TimeoutError:
            return await self._close("expire", CallRef(request_id=progress.request_id), "Nobody decided in time")
        finally:
            self._resting = False
        if self._delivered:
            decision = self._delivered.pop(0)
            if decision.verdict == "approve":
                return await self._execute(progress, decision)
            return await self._close("deny", _execute_request(progress, decision), "Take a denial")
        self._withdrawn = False
        return await self._close("withdraw", CallRef(request_id=progress.request_id), "Withdrawn by the requester")

    async def _close(self, name: str, request: CallRef | ExecuteRequest, summary: str) -> Progress:
        return await workflow.execute_local_activity(
            name,
            request,
            result_type=Progress,
            start_to_close_timeout=_LOCAL_LIMIT,
            retry_policy=_REPEATED,
            summary=summary,
        )

    async def _execute(self, progress: Progress, decision: SignedDecision | None) -> Progress:
        request = _execute_request(progress, decision)
        tried = await self._attempt_here(request, progress.queue) if progress.inline else None
        return tried or await self._attempt("execute", request, progress.queue)

    async def _attempt_here(self, request: ExecuteRequest, queue: str | None) -> Progress | None:
        """One attempt in this very task; None where the process that has the task now sends no effects."""
        workflow.set_current_details(SENDING)
        try:
            return await workflow.execute_local_activity(
                "execute_here",
                request,
                result_type=_TRIED,
                start_to_close_timeout=_EFFECT_LIMIT,
                retry_policy=_ONCE,
                summary=_SENT_ONCE,
            )
        except FailureError:
            # What a local activity raises comes as it is, and not as an ActivityError.
            return await self._look(request.request_id, queue)

    async def _attempt(self, name: str, request: CallRef | ExecuteRequest, queue: str | None) -> Progress:
        """One attempt. Whatever ends it other than its own answer means that the outcome is not known."""
        workflow.set_current_details(SENDING)
        try:
            return await workflow.execute_activity(
                name,
                request,
                result_type=Progress,
                task_queue=queue,
                start_to_close_timeout=_EFFECT_LIMIT,
                heartbeat_timeout=_SILENCE,
                retry_policy=_ONCE,
                summary=_SENT_ONCE if name == "execute" else "Send it again under the same key, once",
            )
        except ActivityError:
            return await self._look(request.request_id, queue)

    async def _inspect(self, progress: Progress) -> Progress:
        """Look when it is time, or when there is something new to see."""
        if progress.after_seconds:
            with suppress(TimeoutError):
                await workflow.wait_condition(
                    lambda: self._look_now,
                    timeout=timedelta(seconds=progress.after_seconds),
                    timeout_summary="Before the next look",
                )
        self._look_now = False
        return await self._look(progress.request_id, progress.queue)

    async def _look(self, request_id: str, queue: str | None, name: str = "inspect") -> Progress:
        return await workflow.execute_activity(
            name,
            CallRef(request_id=request_id),
            result_type=Progress,
            task_queue=queue,
            start_to_close_timeout=_EFFECT_LIMIT,
            heartbeat_timeout=_SILENCE,
            retry_policy=_REPEATED,
            summary="Look the outcome up",
        )

    def _note(self, progress: Progress) -> None:
        """Keep the search attributes true. A call that runs straight through never gets a `CallStatus`: each upsert is
        an event and a billed action, and its workflow's result says it as well. What the details say costs nothing."""
        workflow.set_current_details(standing(progress, workflow.now()))
        before, self._progress = self._progress, progress
        asked_again = before is not None and before.approval_id != progress.approval_id
        status = progress.status
        said = status in ("in_progress", self._noted) or (self._noted is None and status == "executed")
        if said and not asked_again:
            return
        updates = [CALL_STATUS.value_set(status)]
        if asked_again and progress.approval_id is not None:
            updates.append(APPROVAL_ID.value_set(progress.approval_id))
        if self._noted is None:
            updates += [
                key.value_set(value)
                for key, value in (
                    (DECISION, progress.verdict),
                    (POLICY_VERSION, progress.policy_version),
                    (APPROVAL_ID, progress.approval_id),
                )
                if value is not None
            ]
        self._noted = status
        workflow.upsert_search_attributes(updates)  # pyright: ignore[reportUnknownMemberType]

    def _result(self) -> ToolCallResult:
        if self._progress is not None:
            return ToolCallResult(
                request_id=self._progress.request_id, status=self._progress.status, code=self._progress.code
            )
        request_id = self._request.request_id if self._request else ""
        return ToolCallResult(request_id=request_id, status="in_progress", code=Code.IN_PROGRESS)


def _the_one(model: type[M], given: tuple[Any, ...]) -> M | None:
    """What was given, as `model`; None when it is something else, or not one thing."""
    try:
        (content,) = given
        return model.model_validate(content)
    except ValueError:
        return None


def _execute_request(progress: Progress, decision: SignedDecision | None) -> ExecuteRequest:
    return ExecuteRequest(
        request_id=progress.request_id,
        approval_id=decision.approval_id if decision else None,
        token=decision.token if decision else None,
        decided_in=decision.decided_in if decision else None,
    )


def search_attributes(tool: str, run_id: str) -> list[SearchAttributePair[str]]:
    """What is set when a call is started; setting it there costs nothing."""
    return [SearchAttributePair(TOOL_NAME, tool), SearchAttributePair(RUN_ID, run_id)]
