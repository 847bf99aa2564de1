"""What `mcp.yaml` says. Strict and closed; what it means together is checked in `tools.mcp.checking`."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, JsonValue, StringConstraints, model_validator

from schemas.base import Model
from schemas.codes import Code
from schemas.tools import ArgumentName, Sentence, System
from tools.declared.document import FAILURES, Document, FieldText, Lookup, Path

Pin = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
UpstreamTool = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[!-~]+$")]
CONTENT = "content"
"""Stands for the texts of an answer, in the place of a path in what is structured."""


class Call(Model):
    """A tool of the upstream, as it was reviewed: `pin` is the digest of its definition. `send`: its arguments, made of
    constants and `$args.name`, `$facts.fact.name`, `$run.customer_id`; of a tool that reads or writes they are its own
    where nothing is said. `meta` goes as `_meta` beside them."""

    tool: UpstreamTool
    pin: Pin
    send: dict[str, JsonValue] | None = None
    meta: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


class Absence(Model):
    """An error that says that there is no such record: the code that the upstream gives it, null for one without."""

    error: str | None


class Read(Call):
    """A tool that only reads. What it answers is the customer's own: `send` names `$run.customer_id`, or `belongs_to`
    says where in the answer the customer's id stands, or it is `public`."""

    belongs_to: Path | None = None
    public: bool = False
    missing: tuple[Absence, ...] = ()
    total: Path | None = None
    """Of a list: where the answer says how many there are in all, should it have pages."""


class Fact(Read):
    """One read of facts, and what of the answer is one."""

    fields: Annotated[dict[ArgumentName, FieldText], Field(min_length=1)]


class Texts(Model):
    """Words of the upstream's that are handed on, as what they are: a stranger's. `text` is where they stand, or
    `content` for the texts of the answer; with `each`, where in each entry of that list, by the entry's `ref`."""

    text: Path
    each: Path | None = None
    ref: Path | None = None
    title: Path | None = None
    most_length: Annotated[int, Field(alias="maxLength", ge=1, le=16_384)] = 2_000

    model_config = ConfigDict(validate_by_alias=True, validate_by_name=False)


class Write(Call):
    """The call that has the effect. `send` and `meta` may name `$operation_id` and `$idempotency_key` too; `key_hours`:
    how long the upstream knows a key."""

    key_hours: Annotated[int, Field(ge=1, le=24 * 365)] | None = None


class Outcome(Model):
    """What an error means: one that the tool answers (`isError`), by its `error` code where it has one, or one of the
    protocol, by its code `rpc`. Whatever is not listed is unknown. `because` is said with INVALID_STATE."""

    model_config = ConfigDict(validate_by_alias=True, validate_by_name=False)

    error: str | None = None
    rpc: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    means: Annotated[Literal["unknown"] | Code, Field(alias="is")]
    because: Sentence | None = None

    @model_validator(mode="after")
    def _is_honest(self) -> Self:
        if isinstance(self.means, Code) and self.means not in FAILURES:
            raise ValueError(f"is: one of unknown, {', '.join(FAILURES)}")
        if self.error is not None and self.rpc is not None:
            raise ValueError("error and rpc: an error is the tool's or the protocol's")
        return self


class Inspect(Lookup, Call):
    """How an effect is looked up: a tool that reads and whose answer has a list."""


class McpDocument(Document):
    """A whole `mcp.yaml`. A tool that reads has `read`; one that writes `write`, `confirmed`, `title` and what of the
    others it needs. Without `inspect` an unknown outcome is a person's to settle."""

    upstream: System
    read: Read | None = None
    texts: tuple[Texts, ...] = ()
    facts: dict[ArgumentName, Fact] = Field(default_factory=dict[str, Fact])
    write: Write | None = None
    outcomes: tuple[Outcome, ...] = ()
    inspect: Inspect | None = None

    @property
    def fact_fields(self) -> Mapping[str, Mapping[str, FieldText]]:
        return {name: fact.fields for name, fact in self.facts.items()}

    @property
    def calls(self) -> dict[str, Call]:
        """Every call of the upstream that it makes, by where it stands."""
        facts: dict[str, Call] = {f"facts.{name}": fact for name, fact in self.facts.items()}
        one: dict[str, Call | None] = {"read": self.read, "write": self.write, "inspect": self.inspect}
        return facts | {where: call for where, call in one.items() if call is not None}

    @property
    def pins(self) -> dict[str, str]:
        """The upstream's tools that it was reviewed with."""
        return {call.tool: call.pin for call in self.calls.values()}
