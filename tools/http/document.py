"""What `http.yaml` says. Strict and closed; what it means together is checked in `tools.http.checking`."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, JsonValue, StringConstraints, model_validator

from schemas.base import Model
from schemas.codes import Code
from schemas.tools import ArgumentName, Sentence, System
from tools.declared.document import FAILURES, Document, FieldText, Lookup, Path, Value

_SEGMENT = r"(?:[A-Za-z0-9_~-][A-Za-z0-9_.~-]*|\{[a-z0-9_.]+\})"
# Statuses that mean "not done" by themselves, whoever sends them on the way.
_PLAIN_STATUSES = (401, 403, 429)

Template = Annotated[str, StringConstraints(pattern=rf"^(?:/{_SEGMENT})+$")]
"""A path with `{args.name}`, `{facts.fact.name}` and `{run.customer_id}` in it."""


class Absence(Model):
    """An answer that says that there is no such record: its status, and the error code that the remote gives it."""

    status: Annotated[int, Field(ge=400, le=499)]
    error: str


class Get(Model):
    """A GET. What it reads is the customer's own: its path or query names `run.customer_id`, or `belongs_to` says where
    in the answer the customer's id stands, or it is `public`."""

    get: Template
    query: dict[str, Value] = Field(default_factory=dict[str, Value])
    belongs_to: Path | None = None
    public: bool = False
    missing: tuple[Absence, ...] = ()
    total: Path | None = None
    """Of a list: where the answer says how many there are in all, should it have pages."""


class Fact(Get):
    """One read of facts, and what of the answer is one."""

    fields: Annotated[dict[ArgumentName, FieldText], Field(min_length=1)]


class Write(Model):
    """The request that has the effect. The idempotency key goes as the header `Idempotency-Key`, unless the body holds
    `$idempotency_key`. `key_hours`: how long the remote knows a key."""

    method: Literal["POST", "PUT"]
    path: Template
    body: dict[str, JsonValue]
    key_hours: Annotated[int, Field(ge=1, le=24 * 365)] | None = None


class Outcome(Model):
    """What an answer to the write means; `because` is said with INVALID_STATE. Whatever is not listed is unknown."""

    model_config = ConfigDict(validate_by_alias=True, validate_by_name=False)

    status: Annotated[int, Field(ge=200, le=599)]
    error: str | None = None
    means: Annotated[Literal["confirmed", "unknown"] | Code, Field(alias="is")]
    because: Sentence | None = None

    @model_validator(mode="after")
    def _is_honest(self) -> Self:
        if isinstance(self.means, Code) and self.means not in FAILURES:
            raise ValueError(f"is: one of confirmed, unknown, {', '.join(FAILURES)}")
        if self.means == "confirmed" and (self.status >= 300 or self.error is not None):
            raise ValueError("only a 2xx without an error code can be a confirmation")
        if isinstance(self.means, Code) and not 400 <= self.status < 500:
            raise ValueError("only a 4xx says that nothing was done")
        if isinstance(self.means, Code) and self.error is None and self.status not in _PLAIN_STATUSES:
            raise ValueError("error: is needed; without the remote's own code this may come from anything on the way")
        return self


class Inspect(Lookup):
    """How an effect is looked up: a GET whose answer has a list."""

    get: Template
    query: dict[str, Value] = Field(default_factory=dict[str, Value])


class HttpDocument(Document):
    """A whole `http.yaml`. A tool that reads has `read`; one that writes everything from `facts` to `title`."""

    system: System
    read: Get | None = None
    facts: dict[ArgumentName, Fact] = Field(default_factory=dict[str, Fact])
    write: Write | None = None
    outcomes: tuple[Outcome, ...] = ()
    inspect: Inspect | None = None

    @property
    def fact_fields(self) -> Mapping[str, Mapping[str, FieldText]]:
        return {name: fact.fields for name, fact in self.facts.items()}
