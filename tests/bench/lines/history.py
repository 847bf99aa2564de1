"""Events and billable actions of a call, from the histories that the tests keep and replay."""

from temporalio.client import WorkflowHistory

from tests.bench.actions import HISTORIES, cost
from tests.bench.figures import Figure
from tests.bench.lab import Lab

_MOST = {"free": (9, 2), "approved": (24, 7)}


def measure(lab: Lab) -> list[Figure]:
    found: list[Figure] = []
    for path, (most_events, most_actions) in _MOST.items():
        events, actions = cost(WorkflowHistory.from_json(path, (HISTORIES / f"{path}.json").read_text()).events)
        found.append(Figure(f"events, {path}", events, "", most_events, "most"))
        found.append(Figure(f"billable actions, {path}", actions, "", most_actions, "most"))
    return found
