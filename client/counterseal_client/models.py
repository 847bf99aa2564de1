"""What the service answers. Fields, codes and statuses that are newer than this package break nothing: the known ones
are typed, the others are plain strings."""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

Status = Literal[
    "executed",
    "pending_approval",
    "refused",
    "denied",
    "expired",
    "cancelled",
    "failed",
    "outcome_unknown",
    "in_progress",
]
Action = Literal[
    "none",
    "wait",
    "retry_after_delay",
    "repair_input",
    "request_approval",
    "use_other_tool",
    "stop_and_report",
    "inspect_outcome",
]
Code = Literal[
    "OK",
    "NO_RESULTS",
    "PENDING_APPROVAL",
    "IN_PROGRESS",
    "INVALID_INPUT",
    "UNAUTHENTICATED",
    "FORBIDDEN",
    "TOOL_NOT_AVAILABLE",
    "IDEMPOTENCY_CONFLICT",
    "ORDER_NOT_FOUND",
    "REFUND_EXCEEDS_PAID",
    "CURRENCY_MISMATCH",
    "NOT_REFUNDABLE",
    "INVALID_STATE",
    "RATE_LIMITED",
    "CAPABILITY_DISABLED",
    "VAULT_LOCKED",
    "UNSAFE_CHAIN",
    "USER_DENIED",
    "APPROVAL_EXPIRED",
    "APPROVAL_VOID",
    "CANCELLED",
    "AUTH_FAILED",
    "REMOTE_FORBIDDEN",
    "REMOTE_REFUSED",
    "NETWORK_UNREACHABLE",
    "TEMPORARY_FAILURE",
    "OUTCOME_UNKNOWN",
    "INTERNAL_FAILURE",
]
Decision = Literal["free", "notify", "hold", "refuse"]

KEY = "idempotency_key"
_MOVING = ("pending_approval", "in_progress", "outcome_unknown")
_OVER = ("executed", "refused", "denied", "expired", "cancelled", "failed")
_WATCH = ("wait", "inspect_outcome")


class _Answered(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Reply(_Answered):
    """How a call stands, or why a request was refused. `message` and `action` say what to do next."""

    ok: bool
    status: Status | str
    request_id: str
    code: Code | str
    message: str
    action: Action | str
    retryable: bool
    operation: str | None = None
    retry_after_seconds: int | None = None
    invalid_fields: tuple[str, ...] | None = None
    allowed: dict[str, int | str] | None = None
    attempts_remaining: int | None = None
    use_tool: str | None = None
    expires_at: str | None = None
    http_status: int | None = None
    result: dict[str, JsonValue] | None = None
    dry_run: bool | None = None
    decision: Decision | str | None = None
    known: bool = Field(default=True, exclude=True)
    """False where the service refused to say how the call stands, e.g. because the run's token has expired. It may have
    been done before, or wait for a person."""

    @property
    def pending(self) -> bool:
        """Something may still come of the call: a person decides, it is being worked on, or its outcome looked up."""
        if self.dry_run or not self.known:
            return False
        return self.status in _MOVING or (self.status not in _OVER and self.action in _WATCH)

    @property
    def settled(self) -> bool:
        """The call is over: nothing more happens of itself. Never true of a dry run, of a call that may be sent again
        as it is, nor where nothing is known."""
        return self.known and not (self.dry_run or self.retryable or self.pending)

    @property
    def refused(self) -> bool:
        """The service did not do what it was asked for. Whether the call is over, `settled` says."""
        return not self.ok and not self.pending

    def for_model(self) -> str:
        """What to hand to a model: compact JSON of what is said, without what only concerns the exchange."""
        return self.model_dump_json(exclude_none=True, exclude={"http_status"})


class Tool(_Answered):
    """A tool that a run may use now."""

    name: str
    version: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    annotations: dict[str, JsonValue]

    @property
    def takes_key(self) -> bool:
        """It writes: a call of it needs a step, or an idempotency key."""
        return KEY in self.input_schema.get("properties", {})

    @property
    def repeatable(self) -> bool:
        """Calling it twice is as calling it once, without any key."""
        return self.annotations.get("readOnlyHint") is True and self.annotations.get("idempotentHint") is True

    @property
    def model_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments that a model chooses: all but the idempotency key."""
        schema = dict(self.input_schema)
        schema["properties"] = {name: each for name, each in schema.get("properties", {}).items() if name != KEY}
        if "required" in schema:
            schema["required"] = [name for name in schema["required"] if name != KEY]
        return schema


class Tools(_Answered):
    """The tools that a run may use now; none, and the `refusal`, where the service does not say."""

    tools: tuple[Tool, ...] = ()
    refusal: Reply | None = Field(default=None, exclude=True)

    def __iter__(self) -> Iterator[Tool]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)

    def get(self, name: str) -> Tool | None:
        return next((tool for tool in self.tools if tool.name == name), None)


class OpenedRun(_Answered):
    """Answer of `POST /v1/runs`."""

    run_id: str
    run_token: str = Field(repr=False)
    tools: tuple[str, ...]
    expires_at: str
