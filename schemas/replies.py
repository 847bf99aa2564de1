"""The reply object: all that an agent ever sees of a call."""

from datetime import UTC, datetime
from typing import Literal

from pydantic import Field, JsonValue

from schemas.base import Model
from schemas.codes import REGISTRY, Action, Code, Status

VERSION = "1"
"""The version of the reply object and of the codes, sent as the header `Counterseal-Version`. A field or a code may be
added within a version; what exists keeps its name and meaning."""

Verdict = Literal["free", "notify", "hold", "refuse"]


class Reply(Model):
    """Built from an allow-list: what is not a field here cannot reach an agent."""

    ok: bool
    status: Status
    request_id: str
    code: Code
    message: str
    action: Action
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
    decision: Verdict | None = None

    def to_json(self) -> str:
        """Compact JSON without the fields that do not apply."""
        return self.model_dump_json(exclude_none=True)


class Explanation(Model):
    """What a reply says beside its code: the values of its sentence and the optional fields. Stored with the call."""

    values: dict[str, str | int] = Field(default_factory=dict[str, str | int])
    action: Action | None = None
    operation: str | None = None
    retry_after_seconds: int | None = None
    invalid_fields: tuple[str, ...] | None = None
    allowed: dict[str, int | str] | None = None
    attempts_remaining: int | None = None
    use_tool: str | None = None
    expires_at: str | None = None


def waits_until(expires_at: datetime) -> Explanation:
    """What is said of a call that waits for a person until then."""
    said = expires_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Explanation(values={"expires_at": said}, expires_at=said)


def reply_for(
    code: Code,
    request_id: str,
    explanation: Explanation | None = None,
    *,
    result: dict[str, JsonValue] | None = None,
    retryable: bool | None = None,
    attempts_remaining: int | None = None,
) -> Reply:
    """The reply for `code`. Raises KeyError when the code's sentence needs a value that `explanation` lacks.

    `attempts_remaining`: how many more calls of the tool its run may make; said where this one went through or waits.
    """
    spec = REGISTRY[code]
    said = explanation or Explanation()
    message = spec.message.format_map(said.values)
    if attempts_remaining is not None and spec.status in ("executed", "pending_approval"):
        said = said.model_copy(update={"attempts_remaining": attempts_remaining})
        message += f" Calls of this tool that this run may still make: {attempts_remaining}."
    return Reply(
        ok=spec.status in ("executed", "pending_approval"),
        status=spec.status,
        request_id=request_id,
        code=code,
        message=message,
        action=said.action or spec.action,
        retryable=spec.retryable if retryable is None else retryable,
        http_status=None if spec.http_status < 400 else spec.http_status,
        result=result,
        **said.model_dump(exclude={"values", "action"}),
    )


class Problem(Reply):
    """An RFC 9457 problem document around a refusal.

    The reply's own fields keep their names: `status` is the call's, `http_status` the number that RFC 9457 calls
    `status` (a consumer that expects a number there must ignore it, section 3.1).
    """

    type: str
    title: str
    detail: str
    instance: str


def problem_document(reply: Reply, http_status: int, base: str) -> dict[str, JsonValue]:
    """The problem document for `reply` as JSON; `base` is the service's public URL."""
    problem = Problem(
        **reply.model_dump(exclude={"http_status"}),
        http_status=http_status,
        type=f"{base}/codes/{reply.code}",
        title=REGISTRY[reply.code].title,
        detail=reply.message,
        instance=f"/v1/tool-calls/{reply.request_id}",
    )
    return problem.model_dump(mode="json", exclude_none=True)
