"""The protected account of a failure or refusal: kept encrypted, for operators alone, never for an agent."""

import traceback
from collections.abc import Sequence
from datetime import datetime
from typing import Literal, get_args

from schemas.base import Model
from schemas.codes import Code, Status

BoundaryName = Literal[
    "input_validated",
    "credential_selected",
    "authorised",
    "connection_started",
    "bytes_sent",
    "response_received",
    "result_returned",
]
BOUNDARIES: tuple[BoundaryName, ...] = get_args(BoundaryName)
MarkName = BoundaryName | Literal["connected", "tls_started", "tls_established", "request_sent", "body_read"]
StepName = Literal["edge", "admit", "execute", "inspect", "resend", "recheck", "deny", "expire"]
Purpose = Literal["facts", "read", "effect", "inspection"]
Outcome = Literal["confirmed", "failed", "absent", "unknown"]
Cause = Literal["name_not_resolved", "connection_refused", "connection_reset", "tls", "timeout"]
TokenState = Literal["live", "unknown", "expired", "revoked"]

_LONGEST_TEXT = 2_000
_LONGEST_TRACEBACK = 16_000
HIDDEN = "[credential]"


class Mark(Model):
    """A point that was passed, in milliseconds since the step or exchange began."""

    name: MarkName
    after_ms: int


class RawException(Model):
    """An exception as it was raised: its qualified type, its text, and its traceback with every cause."""

    type: str
    text: str
    traceback: str

    @classmethod
    def of(cls, problem: BaseException, *, hide: Sequence[str] = ()) -> "RawException":
        """`problem` without the values in `hide`; what is very long is cut in the middle."""
        return cls(
            type=f"{type(problem).__module__}.{type(problem).__qualname__}",
            text=_cut(hidden(str(problem), hide), _LONGEST_TEXT),
            traceback=_cut(hidden("".join(traceback.format_exception(problem)), hide), _LONGEST_TRACEBACK),
        )


class Body(Model):
    """What was read of a body: its size in bytes and its fingerprint (keyed, one-way)."""

    size: int
    fingerprint: str


class ExchangeAccount(Model):
    """One exchange with a remote system, as far as it went."""

    purpose: Purpose
    system: str
    method: str
    destination: str
    """`scheme://host:port`."""
    path_template: str
    credential_id: str
    """The id of the credential's record; never the credential."""
    started_at: datetime
    elapsed_ms: int
    marks: tuple[Mark, ...]
    kept_connection: bool
    """Whether an open connection was used again."""
    request: Body
    response: Body | None
    upstream_status: int | None
    headers: dict[str, str]
    """Of the response, those on the allow-list."""
    problem: str | None
    cause: Cause | None
    exception: RawException | None


class Token(Model):
    """The bearer token that a request carried, by its record."""

    state: TokenState
    token_id: str | None = None
    kind: str | None = None
    principal: str | None = None
    run_id: str | None = None


class EdgeRequest(Model):
    """A request that ended at the edge. Of its body only size and fingerprint."""

    method: str
    route: str | None
    """The route's template; None where no route fits."""
    peer: str | None
    http_status: int
    token: Token | None
    body: Body | None


class Diagnostic(Model):
    """What is known of one failure or refusal: one step of a call, or one request that never became a call."""

    request_id: str
    step: StepName
    attempt: int = 1
    began_at: datetime
    elapsed_ms: int
    status: Status | None = None
    code: Code | None = None
    told: str | None = None
    """The sentence that the caller got."""
    tool: str | None = None
    workflow_id: str | None = None
    verdict: str | None = None
    rule: str | None = None
    because: str | None = None
    policy_version: str | None = None
    outcome: Outcome | None = None
    """What was concluded from the exchanges about the effect."""
    problem: str | None = None
    """What was wrong, in one word of ours, e.g. `timeout`, `mismatched_amount`."""
    marks: tuple[Mark, ...] = ()
    """The boundaries that the action itself passed; reading facts for it is told by `exchanges` alone."""
    exchanges: tuple[ExchangeAccount, ...] = ()
    edge: EdgeRequest | None = None
    failure: RawException | None = None

    def reached(self, boundary: BoundaryName) -> bool:
        return any(mark.name == boundary for mark in self.marks)


def hidden(text: str, values: Sequence[str]) -> str:
    """`text` with each of `values` taken out."""
    for value in sorted(filter(None, values), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text


def _cut(text: str, longest: int) -> str:
    # PostgreSQL and JSON take any text but half a surrogate pair.
    plain = text.encode("utf-8", "backslashreplace").decode()
    if len(plain) <= longest:
        return plain
    head = longest // 4
    return f"{plain[:head]}\n[… {len(plain) - longest} characters …]\n{plain[head - longest :]}"
