"""What a call costs at Temporal: events and billable actions of the histories that the tests keep, by path.

`python -m tests.bench.actions`. Counted as https://docs.temporal.io/cloud/actions says: starts, activities, timers,
signals, updates, upserts of search attributes, and one for the local activities of a workflow task together. Queries,
heartbeats and retries of an activity stand in no history, and are not counted.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HISTORIES = Path(__file__).parents[1] / "workflows" / "histories" / "0.1.0"
BILLED = (
    "WORKFLOW_EXECUTION_STARTED",
    "ACTIVITY_TASK_SCHEDULED",
    "TIMER_STARTED",
    "WORKFLOW_EXECUTION_SIGNALED",
    "WORKFLOW_EXECUTION_UPDATE_ACCEPTED",
    "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES",
)


def counted(history: dict[str, Any]) -> tuple[int, int]:
    """(events, billable actions) of one history, as JSON."""
    events = history["events"]
    kinds = Counter(each["eventType"].removeprefix("EVENT_TYPE_") for each in events)
    markers = {
        each["markerRecordedEventAttributes"]["workflowTaskCompletedEventId"]
        for each in events
        if "markerRecordedEventAttributes" in each
    }
    return len(events), sum(kinds[each] for each in BILLED) + len(markers)


def main() -> None:
    for path in sorted(HISTORIES.glob("*.json")):
        events, actions = counted(json.loads(path.read_text()))
        sys.stdout.write(f"{path.stem:24}{events:4} events{actions:4} actions{path.stat().st_size:8} bytes as JSON\n")


if __name__ == "__main__":
    main()
