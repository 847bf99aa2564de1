"""Events and billable actions of a call, from the histories that the tests keep and replay."""

import json

from tests.bench.actions import HISTORIES, counted
from tests.bench.figures import Figure
from tests.bench.lab import Lab

_MOST = {"free": (9, 2), "approved": (24, 7)}


def measure(lab: Lab) -> list[Figure]:
    found: list[Figure] = []
    for path, (most_events, most_actions) in _MOST.items():
        events, actions = counted(json.loads((HISTORIES / f"{path}.json").read_text()))
        found.append(Figure(f"events, {path}", events, "", most_events, "most"))
        found.append(Figure(f"billable actions, {path}", actions, "", most_actions, "most"))
    return found
