"""What a call costs at Temporal: events and billable actions of the histories that the tests keep, by path.

`python -m tests.bench.actions`. Counted as https://docs.temporal.io/cloud/actions says. Queries, heartbeats and
rejected updates are billed too, but stand in no history, and are not counted.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory

from tests.workflows.paths import names

HISTORIES = Path(__file__).parents[1] / "workflows" / "histories" / "0.1.0"
BILLED = (
    "WORKFLOW_EXECUTION_STARTED",
    "ACTIVITY_TASK_SCHEDULED",
    "TIMER_STARTED",
    "WORKFLOW_EXECUTION_SIGNALED",
    "WORKFLOW_EXECUTION_UPDATE_ACCEPTED",
    "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES",
)
# What versioning by patches writes is free.
_FREE_ATTRIBUTE = "TemporalChangeVersion"


class Cost(NamedTuple):
    """What stands in a history, and what of it is billed."""

    events: int
    actions: int


def cost(history: Sequence[HistoryEvent]) -> Cost:
    """The cost of one workflow, without what the tests' skipping of time adds."""
    kinds = Counter(names(history))
    actions, marked = sum(kinds[each] for each in BILLED), set[int]()
    for event in history:
        if event.HasField("marker_recorded_event_attributes"):
            # All of a task's markers, such as those of local activities, are one action.
            marked.add(event.marker_recorded_event_attributes.workflow_task_completed_event_id)
        elif event.HasField("activity_task_started_event_attributes"):
            actions += event.activity_task_started_event_attributes.attempt - 1
        elif event.HasField("workflow_task_completed_event_attributes"):
            metered = event.workflow_task_completed_event_attributes.metering_metadata
            actions += metered.nonfirst_local_activity_execution_attempts
        elif event.HasField("upsert_workflow_search_attributes_event_attributes"):
            upserted = event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
            actions -= set(upserted) == {_FREE_ATTRIBUTE}
    return Cost(kinds.total(), actions + len(marked))


def main() -> None:
    for path in sorted(HISTORIES.glob("*.json")):
        content = path.read_text()
        events, actions = cost(WorkflowHistory.from_json(path.stem, content).events)
        sys.stdout.write(f"{path.stem:24}{events:4} events{actions:4} actions{len(content):8} bytes as JSON\n")


if __name__ == "__main__":
    main()
