"""What a tool's document says in every protocol. Strict and closed; what it means together is checked elsewhere."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator

from schemas.base import Model
from schemas.codes import Code
from schemas.tools import ArgumentName, Sentence

# What a remote may say of a write that it did not do.
FAILURES = (Code.AUTH_FAILED, Code.REMOTE_FORBIDDEN, Code.REMOTE_REFUSED, Code.INVALID_STATE, Code.RATE_LIMITED)
_LEAST, _MOST = -(2**53) + 1, 2**53 - 1


def _is_portable(pattern: str) -> str:
    """Raises ValueError."""
    if not (pattern.startswith("^") and pattern.endswith("$")):
        raise ValueError("a pattern has to say the whole text: ^…$")
    if re.search(r"\\[dDwWsSbB]", pattern):
        raise ValueError(r"\d, \w, \s and \b take look-alike characters of other scripts; spell the class out: [0-9]")
    try:
        re.compile(pattern)
    except re.error:
        raise ValueError("is no regular expression") from None
    return pattern


Path = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$")]
"""Where in an answer something stands, e.g. `payment.amount`."""
Pattern = Annotated[str, StringConstraints(max_length=200), AfterValidator(_is_portable)]
Value = str | int | bool
"""A constant, or `$` and the name of what is meant: `$args.amount_cents`."""


class FieldText(Model):
    """One field, in a part of JSON Schema (2020-12). `optional`: it may be left out or null.

    `untrusted` and `amendable` are of arguments: the agent's own words; what a person may change. `from` and `presumed`
    are of what is read: where in the answer it stands (its own name where nothing is said); what it is when a person
    says that the effect happened.
    """

    model_config = ConfigDict(validate_by_alias=True, validate_by_name=False)

    type: Literal["string", "integer", "boolean", "array", "object"] = "string"
    description: Annotated[str, StringConstraints(min_length=1, max_length=300)] | None = None
    enum: Annotated[tuple[str, ...], Field(min_length=1, max_length=50)] | None = None
    pattern: Pattern | None = None
    format: Literal["date", "date-time", "age-minutes"] | None = None
    least_length: Annotated[int | None, Field(alias="minLength", ge=0)] = None
    most_length: Annotated[int | None, Field(alias="maxLength", ge=1, le=4000)] = None
    minimum: Annotated[int, Field(ge=_LEAST, le=_MOST)] | None = None
    maximum: Annotated[int, Field(ge=_LEAST, le=_MOST)] | None = None
    items: "FieldText | None" = None
    most_items: Annotated[int | None, Field(alias="maxItems", ge=1, le=1000)] = None
    properties: dict[ArgumentName, "FieldText"] | None = None
    optional: bool = False
    untrusted: bool = False
    amendable: bool = False
    source: Annotated[Path | None, Field(alias="from")] = None
    presumed: Value | None = None

    @model_validator(mode="after")
    def _fits_its_type(self) -> Self:
        fits: dict[str, tuple[str, ...]] = {
            "string": ("enum", "pattern", "format", "least_length", "most_length", "untrusted"),
            "integer": ("minimum", "maximum", "format"),
            "boolean": (),
            "array": ("items", "most_items"),
            "object": ("properties",),
        }
        general = {"type", "description", "optional", "amendable", "source", "presumed"}
        for name in sorted(self.model_fields_set - general - {*fits[self.type]}):
            raise ValueError(f"{type(self).model_fields[name].alias or name} is not for type {self.type}")
        if (self.format == "age-minutes") != (self.type == "integer" and self.format is not None):
            raise ValueError("age-minutes is the format of an integer, date and date-time of a string")
        if self.type == "string" and not (self.enum or self.pattern or self.format or self.most_length):
            raise ValueError("a string needs an enum, a pattern, a format or a maxLength")
        if self.type == "array" and (self.items is None or self.most_items is None):
            raise ValueError("an array needs items and maxItems")
        if self.type == "object" and not self.properties:
            raise ValueError("an object needs properties")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError("minimum is more than maximum")
        return self

    @property
    def is_plain(self) -> bool:
        """Whether it may stand in a sentence of ours: not somebody's free text."""
        return not self.untrusted and (
            self.type in ("integer", "boolean") or bool(self.enum or self.pattern or self.format)
        )


class ClaimText(Model):
    """What a call takes from something finite: `resource` names it, e.g. `account:{facts.account.account_id}`."""

    resource: Sentence
    amount: str
    available: str
    currency: str


class Confirmation(Model):
    """When an answer counts: everything in `equal` has to be ours. `id` is where the remote's id of it stands."""

    id: Path
    equal: Annotated[dict[Path, Value], Field(min_length=1)]


class Lookup(Model):
    """Where effects stand in what a look-up answers: in a `list`. `complete`: what has to be so for the list to be all
    there is. `failed`: the states of an entry in which it did not happen."""

    list: Path
    complete: dict[Path, Value] = Field(default_factory=dict[str, Value])
    failed: dict[Path, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])


class Document(Model):
    """What a tool says, whatever it speaks: its arguments, its result, and of a write what an approval and a
    confirmation rest on."""

    error: Path | None = None
    """Where in an answer the remote's error code stands."""
    arguments: dict[ArgumentName, FieldText] = Field(default_factory=dict[str, FieldText])
    result: dict[ArgumentName, FieldText] = Field(default_factory=dict[str, FieldText])
    done: Sentence
    matters: tuple[Path, ...] = ()
    """The facts that an approval rests on, e.g. `recipient.recipient_id`; if one changes, it is void."""
    claim: ClaimText | None = None
    confirmed: Confirmation | None = None
    title: Sentence | None = None
    undone_late: bool = False

    @property
    def fact_fields(self) -> Mapping[str, Mapping[str, FieldText]]:
        """What of each read of facts is one."""
        raise NotImplementedError


def schemas_of(fields: Mapping[str, FieldText], prefix: str) -> Mapping[str, FieldText]:
    """Every field below `prefix` by its dotted name, those within objects too."""
    found: dict[str, FieldText] = {}
    for name, field in fields.items():
        found[f"{prefix}.{name}"] = field
        found.update(schemas_of(field.properties or {}, f"{prefix}.{name}"))
    return found
