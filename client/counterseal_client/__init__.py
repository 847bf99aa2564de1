"""Counterseal from the outside: its tools for an agent, and its ledger for an auditor (`counterseal_client.verify`)."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterseal_client.asynchronous import AsyncCounterseal, AsyncRun
    from counterseal_client.blocking import Counterseal, Run
    from counterseal_client.core import Patience
    from counterseal_client.errors import ClientError, Misuse, UnexpectedAnswer, Unreachable
    from counterseal_client.models import Reply, Tool, Tools
    from counterseal_client.steps import step_key

__all__ = [
    "AsyncCounterseal",
    "AsyncRun",
    "ClientError",
    "Counterseal",
    "Misuse",
    "Patience",
    "Reply",
    "Run",
    "Tool",
    "Tools",
    "UnexpectedAnswer",
    "Unreachable",
    "step_key",
]

_HOME = {
    **dict.fromkeys(("AsyncCounterseal", "AsyncRun"), "asynchronous"),
    **dict.fromkeys(("Counterseal", "Run"), "blocking"),
    **dict.fromkeys(("ClientError", "Misuse", "UnexpectedAnswer", "Unreachable"), "errors"),
    **dict.fromkeys(("Reply", "Tool", "Tools"), "models"),
    "Patience": "core",
    "step_key": "steps",
}


def __getattr__(name: str) -> object:
    """Imported when asked for: the verifier stands on as little as it can, and not on an HTTP client."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
