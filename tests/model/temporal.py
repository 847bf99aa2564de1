"""Temporal, as far as the service uses it, in this process: the SDK's own workflow instances are driven by activations
as a worker drives them, over virtual time; activities run when they are told to, and die when they are told to."""

import asyncio
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, cast

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload, Payloads, RetryPolicy
from temporalio.api.failure.v1 import Failure
from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands import WorkflowCommand
from temporalio.common import Priority, TypedSearchAttributes
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.worker._workflow_instance import WorkflowInstance, WorkflowInstanceDetails

from tests.model.clock import Clock

_CONVERTER = pydantic_data_converter
# What a workflow task may take; a worker that is lost in one is missed after it.
_TASK = timedelta(seconds=10)
_START_TO_CLOSE = 1
# So many activations are a long history, where histories get long.
_LONG = 8
# An activation has an event loop of its own, so it needs a thread of its own.
_THREAD = ThreadPoolExecutor(1)
_PRIORITY = Priority.default
_NO_ATTRIBUTES = TypedSearchAttributes.empty


class Died(BaseException):
    """The process is gone: nothing after this runs."""


class BrokenWorkflow(Exception):
    """A workflow task failed, or a replay went another way: a workflow that would hang."""


@dataclass(eq=False)
class Asked:
    """An activity that a workflow asked for and has no answer to."""

    execution: "Execution"
    seq: int
    name: str
    arguments: list[Payload]
    local: bool
    policy: RetryPolicy
    limit: timedelta
    heartbeat: timedelta | None
    due: datetime
    attempt: int = 1
    started: datetime | None = None
    task: asyncio.Task[Any] | None = None
    """Runs, and hangs on the network."""

    @property
    def times_out(self) -> datetime | None:
        """When it is given up; one whose worker is gone, when its heartbeat is missed."""
        if self.started is None:
            return None
        return self.started + (self.limit if self.task is not None or self.heartbeat is None else self.heartbeat)


@dataclass(eq=False)
class Execution:
    """One run of a workflow."""

    id: str
    run_id: str
    type: str
    arguments: list[Payload]
    instance: WorkflowInstance | None = None
    status: str = "running"
    timers: dict[int, datetime] = field(default_factory=dict[int, datetime])
    asked: dict[tuple[bool, int], Asked] = field(default_factory=dict[tuple[bool, int], Asked])
    history: list[tuple[bytes, list[bytes]]] = field(default_factory=list[tuple[bytes, list[bytes]]])
    """Each activation, and the commands that came of it."""
    waiting: list[WorkflowActivationJob] = field(default_factory=list[WorkflowActivationJob])
    """What came while a workflow task ran."""
    updates: set[str] = field(default_factory=set[str])


class Server:
    """The executions of one history, and the workers that work them off."""

    def __init__(self, clock: Clock, workflows: list[type], activities: dict[str, Callable[..., Any]]) -> None:
        self._clock = clock
        self._workflows = {
            cast(str, defn.name): defn for defn in (workflow._Definition.must_from_class(each) for each in workflows)
        }
        self._activities = activities
        self._runs = itertools.count()
        self.tasks: set[asyncio.Task[Any]] = set()
        """Activities that run, whether or not anybody still waits for them."""
        self.executions: dict[str, Execution] = {}
        """The latest run of each id."""
        self.long_histories = False
        """Whether workflows are told that they have become long."""

    # Workflows

    def start(self, type_: str, argument: Any, id_: str, *jobs: WorkflowActivationJob) -> None:
        """Start a new run of `id_`, whatever became of the one before."""
        arguments = _CONVERTER.payload_converter.to_payloads([argument])
        self._start(type_, arguments, id_, *jobs)

    def _start(self, type_: str, arguments: list[Payload], id_: str, *jobs: WorkflowActivationJob) -> None:
        execution = Execution(id_, f"run-{next(self._runs)}", type_, arguments)
        self.executions[id_] = execution
        job = WorkflowActivationJob()
        job.initialize_workflow.workflow_type = type_
        job.initialize_workflow.workflow_id = id_
        job.initialize_workflow.arguments.extend(arguments)
        job.initialize_workflow.attempt = 1
        job.initialize_workflow.randomness_seed = 1
        self._activate(execution, job, *jobs)

    def signal(self, execution: Execution, name: str, *arguments: Any) -> None:
        self.deliver(execution, signal_job(name, *arguments))

    def update(self, execution: Execution, name: str, id_: str, argument: Any) -> None:
        """Deliver an update; one of the same id is known already."""
        if id_ in execution.updates:
            return
        execution.updates.add(id_)
        job = WorkflowActivationJob()
        job.do_update.id = job.do_update.protocol_instance_id = job.do_update.meta.update_id = id_
        job.do_update.name = name
        job.do_update.input.extend(_CONVERTER.payload_converter.to_payloads([argument]))
        job.do_update.run_validator = True
        self.deliver(execution, job)

    def deliver(self, execution: Execution, job: WorkflowActivationJob) -> None:
        """At once, or after the workflow task that runs."""
        if any(each.local for each in execution.asked.values()):
            execution.waiting.append(job)
        else:
            self._activate(execution, job)

    def evict(self, execution: Execution) -> None:
        """Another worker takes the workflow over: it is replayed, and must ask for the same things."""
        self._end_instance(execution)
        execution.instance = self._new_instance(execution)
        for sent, commands in execution.history:
            activation = WorkflowActivation.FromString(sent)
            activation.is_replaying = True
            if _commands(execution.instance, activation) != commands:
                raise BrokenWorkflow(f"{execution.type} went another way when it was replayed")

    def lose(self, execution: Execution) -> None:
        """Temporal knows nothing of it any more."""
        self._end_instance(execution)
        execution.status = "lost"
        del self.executions[execution.id]

    def _activate(self, execution: Execution, *jobs: WorkflowActivationJob) -> None:
        activation = WorkflowActivation(run_id=execution.run_id, jobs=jobs, history_length=3)
        activation.timestamp.CopyFrom(_timestamp(self._clock.temporals()))
        activation.continue_as_new_suggested = self.long_histories and len(execution.history) > _LONG
        if execution.instance is None:
            execution.instance = self._new_instance(execution)
        commands = _commands(execution.instance, activation)
        execution.history.append((activation.SerializeToString(deterministic=True), commands))
        for command in commands:
            self._do(execution, WorkflowCommand.FromString(command))
        if execution.status == "running" and execution.waiting and not any(a.local for a in execution.asked.values()):
            waiting, execution.waiting = execution.waiting, []
            self._activate(execution, *waiting)

    def _do(self, execution: Execution, command: WorkflowCommand) -> None:
        match command.WhichOneof("variant"):
            case "start_timer":
                timer = command.start_timer
                execution.timers[timer.seq] = self._clock.now() + timer.start_to_fire_timeout.ToTimedelta()
            case "cancel_timer":
                execution.timers.pop(command.cancel_timer.seq, None)
            case "schedule_activity":
                self._ask(execution, command.schedule_activity, local=False)
            case "schedule_local_activity":
                self._ask(execution, command.schedule_local_activity, local=True)
            case "complete_workflow_execution":
                self._close(execution, "completed")
            case "fail_workflow_execution":
                self._close(execution, "failed")
            case "continue_as_new_workflow_execution":
                self._close(execution, "continued")
                again = command.continue_as_new_workflow_execution
                self._start(again.workflow_type or execution.type, list(again.arguments), execution.id)
                self.executions[execution.id].waiting += execution.waiting
            case "upsert_workflow_search_attributes" | "update_response":
                pass
            case other:
                raise BrokenWorkflow(f"{other} is nothing that this workflow does")

    def _ask(self, execution: Execution, command: Any, *, local: bool) -> None:
        beat = None if local or not command.HasField("heartbeat_timeout") else command.heartbeat_timeout.ToTimedelta()
        execution.asked[local, command.seq] = Asked(
            execution=execution,
            seq=command.seq,
            name=command.activity_type,
            arguments=list(command.arguments),
            local=local,
            policy=command.retry_policy,
            limit=command.start_to_close_timeout.ToTimedelta(),
            heartbeat=beat,
            due=self._clock.now(),
        )

    def _close(self, execution: Execution, status: str) -> None:
        execution.status = status
        self._end_instance(execution)

    def _end_instance(self, execution: Execution) -> None:
        if execution.instance is not None:
            activation = WorkflowActivation(run_id=execution.run_id)
            activation.jobs.add().remove_from_cache.SetInParent()
            _THREAD.submit(execution.instance.activate, activation).result()
            execution.instance = None

    def _new_instance(self, execution: Execution) -> WorkflowInstance:
        start = self._clock.temporals()
        info = workflow.Info(
            attempt=1,
            continued_run_id=None,
            cron_schedule=None,
            execution_timeout=None,
            first_execution_run_id=execution.run_id,
            headers={},
            namespace="default",
            original_execution_run_id=execution.run_id,
            parent=None,
            root=None,
            priority=_PRIORITY,
            raw_memo={},
            retry_policy=None,
            run_id=execution.run_id,
            run_timeout=None,
            search_attributes={},
            start_time=start,
            workflow_start_time=start,
            task_queue="model",
            task_timeout=_TASK,
            typed_search_attributes=_NO_ATTRIBUTES,
            workflow_id=execution.id,
            workflow_type=execution.type,
        )
        return UnsandboxedWorkflowRunner().create_instance(
            WorkflowInstanceDetails(
                payload_converter_factory=lambda: _CONVERTER.payload_converter,
                failure_converter_class=_CONVERTER.failure_converter_class,
                interceptor_classes=[],
                defn=self._workflows[execution.type],
                info=info,
                randomness_seed=1,
                extern_functions={"__temporal_assert_local_activity_valid": lambda name: None},
                disable_eager_activity_execution=True,
                worker_level_failure_exception_types=[],
                patch_activation_callback=None,
                last_completion_result=Payloads(),
                last_failure=None,
            )
        )

    # Time

    def asked(self) -> list[Asked]:
        """What may be begun now."""
        now = self._clock.now()
        return [
            each
            for execution in self.executions.values()
            if execution.status == "running"
            for each in execution.asked.values()
            if each.task is None and each.started is None and each.due <= now
        ]

    def next_moment(self) -> datetime | None:
        """When something happens of itself next."""
        moments: list[datetime] = []
        for execution in self.executions.values():
            if execution.status == "running":
                moments += execution.timers.values()
                moments += [each.times_out or each.due for each in execution.asked.values()]
        return min(moments, default=None)

    def fire(self) -> None:
        """Everything whose time has come, in the order of time."""
        while (due := self._first_due()) is not None:
            execution, what = due
            if isinstance(what, Asked):
                self._timed_out(what)
            else:
                del execution.timers[what]
                job = WorkflowActivationJob()
                job.fire_timer.seq = what
                self.deliver(execution, job)

    def _first_due(self) -> tuple[Execution, Asked | int] | None:
        now, found = self._clock.now(), list[tuple[datetime, Execution, Asked | int]]()
        for execution in self.executions.values():
            if execution.status == "running":
                found += [(at, execution, seq) for seq, at in execution.timers.items() if at <= now]
                found += [(at, execution, a) for a in execution.asked.values() if (at := a.times_out) and at <= now]
        if not found:
            return None
        _, execution, what = min(found, key=lambda each: each[0])
        return execution, what

    def _timed_out(self, asked: Asked) -> None:
        """Whatever still runs of it runs on, and its answer is nobody's."""
        failure = Failure(message="activity StartToClose timeout")
        failure.timeout_failure_info.timeout_type = _START_TO_CLOSE  # pyright: ignore[reportAttributeAccessIssue]
        asked.task = None
        self._failed(asked, failure)

    # Activities

    async def work(self, asked: Asked, stuck: asyncio.Event) -> None:
        """Run an activity until it ends or hangs on the network (`stuck` is set)."""
        asked.started = self._clock.now()
        asked.task = asyncio.create_task(self._run(asked, asked.attempt))
        self.tasks.add(asked.task)
        stuck.clear()
        await self.watch(stuck)

    async def watch(self, stuck: asyncio.Event) -> None:
        """Until a task ends, or the one that runs hangs; all others hang already."""
        hangs = asyncio.create_task(stuck.wait())
        await asyncio.wait({*self.tasks, hangs}, return_when=asyncio.FIRST_COMPLETED)
        hangs.cancel()
        for task in [each for each in self.tasks if each.done()]:
            self.tasks.remove(task)
            task.result()

    async def _run(self, asked: Asked, attempt: int) -> None:
        function = self._activities[asked.name]
        types = activity._Definition.must_from_callable(function).arg_types
        arguments = _CONVERTER.payload_converter.from_payloads(asked.arguments, types)
        environment = ActivityEnvironment()
        environment.info = replace(
            environment.info, workflow_id=asked.execution.id, activity_type=asked.name, attempt=attempt
        )

        def current() -> bool:
            """Whether anybody still waits for this attempt."""
            return asked.task is asyncio.current_task() and asked.execution.status == "running"

        try:
            result = await environment.run(function, *arguments)
        except (Died, asyncio.CancelledError):
            if current():
                self._worker_lost(asked)
        except ApplicationError as problem:
            # Any other exception is no answer that an activity gives, and ends the history.
            if not current():
                return
            asked.task = None
            failure = Failure()
            _CONVERTER.failure_converter.to_failure(problem, _CONVERTER.payload_converter, failure)
            self._failed(asked, failure, final=problem.non_retryable)
        else:
            if current():
                self._answered(asked, _CONVERTER.payload_converter.to_payloads([result])[0])

    def _worker_lost(self, asked: Asked) -> None:
        """A regular activity is missed when its time is over; a local one with its workflow task."""
        asked.task = None
        if asked.local:
            asked.started, asked.attempt = None, 1
            asked.due = self._clock.now() + _TASK
            self.evict(asked.execution)

    def _failed(self, asked: Asked, failure: Failure, *, final: bool = False) -> None:
        most = asked.policy.maximum_attempts
        if not final and (most == 0 or asked.attempt < most):
            pause = asked.policy.initial_interval.ToTimedelta() * asked.policy.backoff_coefficient ** (
                asked.attempt - 1
            )
            longest = asked.policy.maximum_interval.ToTimedelta()
            asked.due = self._clock.now() + (min(pause, longest) if longest else pause)
            asked.started = None
            asked.attempt += 1
            return
        job = self._resolution(asked)
        outer = job.resolve_activity.result.failed.failure
        outer.message = "Activity task failed"
        outer.activity_failure_info.activity_type.name = asked.name
        outer.cause.CopyFrom(failure)
        self._resolve(asked, job)

    def _answered(self, asked: Asked, result: Payload) -> None:
        job = self._resolution(asked)
        job.resolve_activity.result.completed.result.CopyFrom(result)
        self._resolve(asked, job)

    def _resolution(self, asked: Asked) -> WorkflowActivationJob:
        job = WorkflowActivationJob()
        job.resolve_activity.seq = asked.seq
        job.resolve_activity.is_local = asked.local
        return job

    def _resolve(self, asked: Asked, job: WorkflowActivationJob) -> None:
        del asked.execution.asked[asked.local, asked.seq]
        if asked.local:
            self._activate(asked.execution, job)
        else:
            self.deliver(asked.execution, job)


def signal_job(name: str, *arguments: Any) -> WorkflowActivationJob:
    job = WorkflowActivationJob()
    job.signal_workflow.signal_name = name
    job.signal_workflow.originating_event_id = 1
    job.signal_workflow.input.extend(_CONVERTER.payload_converter.to_payloads(arguments) if arguments else [])
    return job


def _commands(instance: WorkflowInstance, activation: WorkflowActivation) -> list[bytes]:
    completion = _THREAD.submit(instance.activate, activation).result()
    if completion.HasField("failed"):
        raise BrokenWorkflow(completion.failed.failure.message)
    return [each.SerializeToString(deterministic=True) for each in completion.successful.commands]


def _timestamp(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp
