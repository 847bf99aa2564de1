"""An effect on a remote system: what is asked, and what became of it."""

from datetime import datetime
from typing import Literal

from pydantic import Field, JsonValue

from schemas.base import Model
from schemas.codes import Code
from schemas.replies import Explanation


class Effect(Model):
    """One intended write. Everything an attempt or an inspection needs; stored before the first byte is sent."""

    request_id: str
    tool: str
    operation_id: str
    gateway_key: str
    target: dict[str, JsonValue]
    """Tool-defined: what to change where, e.g. payment id, amount, currency. Fixed from here on."""
    intended_at: datetime
    """Before the first send; the gateway's memory of the key is counted from it."""
    attempt: int = 1
    sent_again_at: datetime | None = None
    """Before the last send under the same key, when there was more than one."""

    @property
    def last_sent_at(self) -> datetime:
        return self.sent_again_at or self.intended_at


# Why an outcome is a person's to settle: the effect is nowhere to be seen and may not be sent again; looking it up has
# not worked for too long; it is there twice.
ReviewReason = Literal["absent", "unreadable", "found_twice"]
NOT_INSPECTABLE = "not_inspectable"
"""The problem of an inspection that was none: nothing can be looked at, so that a person is asked at once."""
# What operators are told without having asked.
AlertKind = Literal[
    "needs_review",
    "found_twice",
    "effect_reversed",
    "effect_missing",
    "effect_after_all",
    "breaker_tripped",
    "agent_flood",
    "notice_undelivered",
]

# How far an exchange with a remote system got.
Boundary = Literal["nothing_sent", "connected", "bytes_sent", "response_received"]


class Exchange(Model):
    """One exchange, for diagnostics: no header, no query, no body, no foreign text."""

    system: str
    method: str
    path_template: str
    reached: Boundary
    upstream_status: int | None = None
    elapsed_ms: int
    problem: str | None = None
    """One of our own words, e.g. `timeout`, `reset`, `mismatched_amount`."""


class Confirmed(Model):
    """The effect happened, and the answer carried our amount, currency and operation id."""

    kind: Literal["confirmed"] = "confirmed"
    remote_id: str
    result: dict[str, JsonValue]
    exchange: Exchange
    remote_at: datetime | None = None
    """When it happened by the remote's own clock, where the remote says so."""


class Failed(Model):
    """The effect did not happen: the remote documents that for this answer, or nothing was sent."""

    kind: Literal["failed"] = "failed"
    code: Code
    exchange: Exchange
    retry_after_seconds: int | None = None
    explanation: Explanation = Field(default_factory=Explanation)
    """What the reply says beside the code; holds every value that the code's sentence needs."""


class Unknown(Model):
    """The effect may have happened. Never a reason to send again."""

    kind: Literal["unknown"] = "unknown"
    exchange: Exchange


class Absent(Model):
    """An inspection looked through everything and did not find the effect. Not proof of absence while it is young."""

    kind: Literal["absent"] = "absent"
    exchange: Exchange


Attempt = Confirmed | Failed | Unknown
Inspection = Confirmed | Failed | Absent | Unknown
