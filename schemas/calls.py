"""A call: its binding, its input to the workflow, and how far it got."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from schemas.base import Model
from schemas.codes import Code, Status
from schemas.ids import RequestId, RunId
from schemas.replies import Verdict
from schemas.tools import CapabilityClass


class Binding(Model):
    """Who a run acts as and for. Fixed when the run is opened; no argument of a call can change it."""

    tenant: str
    run_id: str
    agent_id: str
    actor_id: str
    customer_id: str
    owner: str | None = None
    """Who answers for the agent, as the token says that opened the run."""


@dataclass(frozen=True, slots=True)
class Doing:
    """A tool that a run has used: when a call of it that ran, or still may, was last asked for, and when one was last
    carried out; None for never."""

    tool: str
    asked_at: datetime
    executed_at: datetime | None


class RunFacts(Model):
    """What a run has done so far, sorted: the tools whose calls were answered, ran or may still run, and the capability
    classes of those. What was refused, denied, withdrawn or failed is not among it."""

    tools: tuple[str, ...] = ()
    touched: tuple[CapabilityClass, ...] = ()


class ToolCallInput(Model):
    """Input of the workflow `ToolCall`. Nothing in it is trusted: `admit` checks it against the run's binding."""

    run_id: RunId
    tool: str
    request_id: RequestId
    arguments: dict[str, JsonValue]


class Call(Model):
    """One call as `admit` understood it: what every later step works from."""

    request_id: str
    binding: Binding
    tool: str
    tool_version: str
    arguments: dict[str, JsonValue]
    arguments_digest: str
    key_hash: str
    workflow_id: str
    trace_id: str | None = None
    """The trace that it is in, from its caller's `traceparent` on (https://www.w3.org/TR/trace-context/); None without
    one."""


Next = Literal["settled", "hold", "execute", "inspect", "resend", "admit"]


class Progress(Model):
    """What an activity tells the workflow: where the call stands and what comes next. No payload, no personal data."""

    request_id: str
    next: Next
    status: Status
    code: Code
    verdict: Verdict | None = None
    policy_version: str | None = None
    queue: str | None = None
    approval_id: str | None = None
    expires_at: datetime | None = None
    after_seconds: int = 0
    """Before the next look at an unknown outcome."""
    unread: bool = False
    """Whether the look that was taken could not read what it looked for."""
    recheck_at: datetime | None = None
    """When an effect that has been settled is looked at again."""
    inline: bool = False
    """Whether the process that says this sends effects itself: the next one is tried beside the workflow first."""
    head: str | None = None
    """Where the call's events end, `n:hash`: so the history knows too, and the ledger can be compared with it."""


class ToolCallResult(Model):
    """Result of the workflow, and what its query `status` answers."""

    request_id: str
    status: Status
    code: Code


class ExecuteRequest(Model):
    """Input of `execute`: which call, and for a parked one the decision that was delivered for it."""

    request_id: str
    approval_id: str | None = None
    token: str | None = None
    decided_in: str | None = None
    """As in `SignedDecision`."""


class CallRef(Model):
    """Input of activities that need nothing but the call."""

    request_id: str


class RecheckInput(Model):
    """Input of the workflow `Recheck`; `queue` is the task queue of the effect's credential."""

    call: CallRef
    queue: str


class PreviewInput(ToolCallInput):
    """Input of the workflow `Preview`, a dry run. `queue` is the task queue of the tool's credential."""

    queue: str
