"""Whether today's workflow code still does what recorded histories say it did."""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from runtime.codec import ENCODING
from runtime.workers import WORKFLOWS, workflow_sandbox

# The SDK's text is a dump of a structure with this in it; https://github.com/temporalio/rules/blob/main/rules/TMPRL1100.md
_ACCOUNT = re.compile(r"\[(TMPRL1100)\] Nondeterminism error: ([^\"\n]+)")
_NOT_A_HISTORY = "not the JSON of a history"


class BadHistoryError(Exception):
    """What was given is not a history. The text is ours."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One history that was replayed; `problem` says in a line where it parted, None when it did not."""

    workflow_id: str
    events: int
    problem: str | None


def parse_history(name: str, content: str) -> WorkflowHistory:
    """The history in the JSON that Temporal's UI and command line export, encoded. Raises BadHistoryError.

    `name` stands for its workflow id where the history does not say it.
    """
    try:
        history = WorkflowHistory.from_json(name, content)
        started = history.events[0].workflow_execution_started_event_attributes
    except (ValueError, LookupError, TypeError, AttributeError, json.JSONDecodeError):
        raise BadHistoryError(_NOT_A_HISTORY) from None
    if not history.events[0].HasField("workflow_execution_started_event_attributes"):
        raise BadHistoryError(_NOT_A_HISTORY)
    return WorkflowHistory(started.workflow_id or name, history.events)


async def replay(
    histories: AsyncIterator[WorkflowHistory], converter: DataConverter, *, workflows: Sequence[type] = WORKFLOWS
) -> AsyncGenerator[Replayed]:
    """Replay each history; nothing outside is touched."""
    replayer = Replayer(workflows=workflows, workflow_runner=workflow_sandbox(), data_converter=converter)
    async for history in histories:
        problem = await _unreadable(history, converter)
        if problem is None:
            failure = await _failure(replayer, history)
            problem = None if failure is None else await _parted(replayer, history, failure)
        yield Replayed(history.workflow_id, len(history.events), problem)


async def _failure(replayer: Replayer, history: WorkflowHistory) -> Exception | None:
    return (await replayer.replay_workflow(history, raise_on_replay_failure=False)).replay_failure


async def _unreadable(history: WorkflowHistory, converter: DataConverter) -> str | None:
    """Sealed with another key, its input would look like another workflow's."""
    payloads = history.events[0].workflow_execution_started_event_attributes.input.payloads
    if converter.payload_codec is None or not payloads:
        return None
    (first, *_) = await converter.payload_codec.decode([payloads[0]])
    return "it was encrypted with another key" if first.metadata.get("encoding") == ENCODING else None


async def _parted(replayer: Replayer, history: WorkflowHistory, failure: Exception) -> str:
    """Where, and how. Temporal's own account names event and command types only; of other failures only the type is
    told."""
    event = await _first_parting(replayer, history)
    name = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_")
    where = f"event {event.event_id}, {name}"
    if not isinstance(failure, NondeterminismError):
        return f"{where}: the workflow's code raised {type(failure).__name__}"
    found = _ACCOUNT.search(str(failure))
    return f"{where}: {found[2]} ({found[1]})" if found else f"{where}: the workflow's code did something else"


async def _first_parting(replayer: Replayer, history: WorkflowHistory) -> HistoryEvent:
    """The event with which the code first parts from a history: without it, it follows."""
    follows, parts = 2, len(history.events)
    while parts - follows > 1:
        middle = (follows + parts) // 2
        if await _failure(replayer, WorkflowHistory(history.workflow_id, history.events[:middle])) is None:
            follows = middle
        else:
            parts = middle
    return history.events[parts - 1]
