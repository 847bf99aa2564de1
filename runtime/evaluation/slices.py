"""What a file of the evaluation set says: customers, an agent's steps, and what must come back. Strict and closed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue, ValidationError

from schemas.base import Model
from schemas.codes import Code, Status
from schemas.facts import OrderStatus
from schemas.strict_yaml import UnreadableError, read
from schemas.tools import ToolName

Kind = Literal[
    "normal",
    "missing_input",
    "malformed_input",
    "injected_instructions",
    "duplicate_after_timeout",
    "approval_missing",
    "stale_result",
    "partial_data",
    "tool_disabled",
    "private_data_outward",
    "untrusted_memory",
    "second_money_movement",
]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{1,62}$")]


class EvaluationError(Exception):
    """A set that cannot be read. The text is one line that names the file and the field."""


class OrderText(Model):
    """An order of the slice's customer; `paid_cents` by one card payment, in US dollars. `note`: on its parcel."""

    paid_cents: Annotated[int, Field(ge=1)] = 10_000
    status: OrderStatus = "delivered"
    disputed: bool = False
    days_old: Annotated[int, Field(ge=0, le=3650)] = 10
    note: str | None = None


class Expected(Model):
    status: Status
    code: Code
    result: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """Values that the result has, by field; others it may have too."""


class Step(Model):
    """One call. `{name}` in a text argument stands for the id of an order or ticket of the slice, `{3.draft_id}` for a
    field of the third step's result. `repeats` sends an earlier step's key again, `lost` has the gateway do the next
    refund and lose the answer. `then` is what a person does about it before the next step; `becomes` is the
    state that the shop gives an order before the call; with `off` the agent is switched off by then. Steps of one
    `turn` are in one trace (`traceparent`); a step that names none is alone in its own."""

    call: ToolName
    arguments: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    expect: Expected
    repeats: Annotated[int, Field(ge=1)] | None = None
    lost: bool = False
    then: Literal["approve", "deny"] | None = None
    finally_: Annotated[Expected | None, Field(alias="finally")] = None
    becomes: dict[Name, OrderStatus] = Field(default_factory=dict[str, OrderStatus])
    off: bool = False
    turn: Name | None = None
    completes_chain: bool = False
    """With what the run did before, it would be more than each call alone: a way out for private data, say. Nothing may
    come of it."""
    unauthorised: bool = False
    """It tries what nobody allowed: whatever it is told, nothing may come of it."""
    recovers: bool = False
    """It does right what an earlier step of the slice did wrong."""


class Slice(Model):
    name: Name
    kind: Kind
    says: str
    """What the customer wrote."""
    orders: dict[Name, OrderText] = Field(default_factory=dict[str, OrderText])
    tickets: tuple[Name, ...] = ()
    tools: Annotated[tuple[ToolName, ...], Field(min_length=1)]
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]
    refunded_cents: Annotated[int, Field(ge=0)] = 0
    """What has really gone back to the customer in the end, by the gateway's own record."""
    messages: Annotated[int, Field(ge=0)] = 0
    """How many text messages have really gone out to them, by the outbox's own record."""
    notes: Annotated[int, Field(ge=0)] = 0
    """How many notes are really kept about them, by the same."""


class Request(Model):
    """What a customer wrote, and the tool that serves it."""

    says: str
    tool: ToolName


class EvaluationFile(Model):
    slices: tuple[Slice, ...] = ()
    requests: tuple[Request, ...] = ()


def read_set(paths: Sequence[Path]) -> EvaluationFile:
    """Everything in these files, or in the YAML files of these folders. Raises EvaluationError."""
    files = [file for path in paths for file in (sorted(path.glob("*.yaml")) if path.is_dir() else [path])]
    if not files:
        raise EvaluationError("there is no evaluation set: give a file, or a folder with .yaml files")
    found = [_read(file) for file in files]
    whole = EvaluationFile(
        slices=tuple(each for file in found for each in file.slices),
        requests=tuple(each for file in found for each in file.requests),
    )
    names = [each.name for each in whole.slices]
    if len(set(names)) < len(names):
        raise EvaluationError(f"two slices are called {next(name for name in names if names.count(name) > 1)}")
    return whole


def _read(file: Path) -> EvaluationFile:
    try:
        return EvaluationFile.model_validate_json(read(file).as_json)
    except UnreadableError as problem:
        raise EvaluationError(f"{file}: {problem}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise EvaluationError(f"{file}: {where}: {first['msg']}") from None
