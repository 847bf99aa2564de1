"""The activities of a worker, wired to what they work with."""

from collections.abc import Callable, Sequence
from typing import Any

from activities.admitting import Admission
from activities.closing import Closing
from activities.decisions import Decisions
from activities.effects import Effects
from activities.inspecting import Inspecting
from activities.notifying import Notifying
from activities.previewing import Previewing
from activities.services import Services

Activity = Callable[..., Any]


def workflow_activities(services: Services) -> Sequence[Activity]:
    """What runs beside the workflow."""
    decisions = Decisions(services)
    effects = Effects(services, decisions)
    closing = Closing(services, decisions, effects)
    return [
        Admission(services, effects).admit,
        effects.execute_here,
        closing.deny,
        closing.expire,
        closing.withdraw,
        Notifying(services).give_up,
    ]


def effect_activities(services: Services) -> Sequence[Activity]:
    """What needs the credentials of a remote system."""
    effects = Effects(services, Decisions(services))
    inspecting = Inspecting(services, effects)
    return [
        # For workers of workflows that hold no credentials.
        Admission(services, effects).admit,
        Previewing(services).preview,
        effects.execute,
        inspecting.inspect,
        inspecting.resend,
        inspecting.recheck,
        Notifying(services).send,
    ]
